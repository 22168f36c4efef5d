import type { Seal } from '@wellspring/core/seal';
import { secretKey } from '@wellspring/core/webhook-signature';
import type { WebhookRow } from '@wellspring/store/collections/webhooks';

/** The keys that sign for a webhook now: its secret, and for a day after a rotation the old one. */
export type SigningKeys = (webhook: WebhookRow, now: number) => Buffer[];

const REMEMBERED = 10_000;

/** Opened secrets are remembered by their sealed text, so a rotation can never meet a stale one. */
export function createSigningKeys(seal: Seal): SigningKeys {
  const opened = new Map<string, Buffer>();
  const open = (sealed: string, webhookId: string) => {
    let key = opened.get(sealed);
    if (!key) {
      key = secretKey(seal.open(sealed, webhookId));
      if (opened.size >= REMEMBERED) opened.clear();
      opened.set(sealed, key);
    }
    return key;
  };
  return ({ id, secret, old_secret, old_secret_until }, now) => {
    const keys = [open(secret, id)];
    if (old_secret !== null && (old_secret_until ?? 0) > now) keys.push(open(old_secret, id));
    return keys;
  };
}
