import { createHmac, randomBytes } from 'node:crypto';

const PREFIX = 'whsec_';

/** A new signing secret of Standard Webhooks: `whsec_` and the base64 of 32 random bytes. */
export const newWebhookSecret = (): string => PREFIX + randomBytes(32).toString('base64');

/** The key bytes of a `whsec_…` secret. */
export const secretKey = (secret: string): Buffer => Buffer.from(secret.slice(PREFIX.length), 'base64');

/**
 * The value of `webhook-signature`: one `v1,<base64>` per key, space-separated, over `id.timestamp.body`.
 * @param timestamp epoch seconds
 */
export function signatures(keys: readonly Buffer[], id: string, timestamp: number, body: string): string {
  return keys
    .map(
      (key) =>
        `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body, 'utf8').digest('base64')}`,
    )
    .join(' ');
}
