import type { Clock } from '@wellspring/core/clock';
import type { WebhookRow } from '@wellspring/store/collections/webhooks';
import type { Listeners } from './match.ts';

type Found = ReadonlyMap<string, Listeners>;

/** Resolves with the webhook if it listens to the channel. */
export type CurrentWebhook = (channel: string, webhookId: string) => Promise<WebhookRow | undefined>;

/** Each attempt asks for its webhook: listeners that were read this recently are not read again. */
export const LISTENERS_MAX_AGE_MS = 100;

const byId = (found: Found) =>
  new Map([...found].map(([name, { webhooks }]) => [name, new Map(webhooks.map((row) => [row.id, row]))]));

/**
 * The webhooks that listen to one emitter, as they were at most LISTENERS_MAX_AGE_MS ago.
 * @param found read just now
 */
export function createCurrentWebhook(clock: Clock, found: Found, read: () => Promise<Found>): CurrentWebhook {
  let latest = Promise.resolve(byId(found));
  let readAt = clock.now();
  return async (channel, webhookId) => {
    if (Math.abs(clock.now() - readAt) >= LISTENERS_MAX_AGE_MS) {
      readAt = clock.now();
      latest = read().then(byId);
    }
    return (await latest).get(channel)?.get(webhookId);
  };
}
