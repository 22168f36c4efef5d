import { createLru } from '@wellspring/core/lru';
import type { Seal } from '@wellspring/core/seal';
import { secretKey } from '@wellspring/core/webhook-signature';
import { formerSecrets, type WebhookRow } from '@wellspring/store/collections/webhooks';

/** The current signing keys of a webhook: its secret, and for a day after a rotation the former one. */
export type SigningKeys = (webhook: WebhookRow, now: number) => Buffer[];

const CACHE_SIZE = 10_000;

/** Caches opened secrets by their sealed text, so entries never go stale. */
export function createSigningKeys(seal: Seal): SigningKeys {
  const cache = createLru<Buffer>(CACHE_SIZE);
  const open = (sealed: string, webhookId: string) => {
    let key = cache.get(sealed);
    if (!key) {
      key = secretKey(seal.open(sealed, webhookId));
      cache.set(sealed, key);
    }
    return key;
  };
  return (webhook, now) =>
    [webhook, ...formerSecrets(webhook, now)].map(({ secret }) => open(secret, webhook.id));
}
