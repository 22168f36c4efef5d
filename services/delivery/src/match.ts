import { emitterPatterns, isGlob } from '@wellspring/core/glob';
import { type Emitter, findEmitter } from '@wellspring/store/collections/emitters';
import { createReach } from '@wellspring/store/collections/subscription-reach';
import { type SubscriptionRow, subscriptions } from '@wellspring/store/collections/subscriptions';
import { type WebhookRow, webhooks } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';

/** Listeners of one channel of an emitter, without duplicates. */
export interface Listeners {
  webhooks: WebhookRow[];
  /** Sources and workflows, which run. */
  runs: string[];
}

/** Subscriptions of an emitter on these channels, by id or by pattern. */
export async function subscriptionsOf(
  store: Store,
  emitter: { id: string; owner_id: string },
  names: readonly string[],
): Promise<SubscriptionRow[]> {
  const collection = store.collection(subscriptions);
  const patterns = emitterPatterns(emitter.id, emitter.owner_id);
  const [direct, byGlob] = await Promise.all([
    collection.list({
      where: { emitter_id: { in: patterns.filter((one) => !isGlob(one)) }, event_name: { in: names } },
    }),
    // A glob matches only emitters of the subscription's owner.
    collection.list({
      where: {
        owner_id: emitter.owner_id,
        emitter_id: { in: patterns.filter(isGlob) },
        event_name: { in: names },
      },
    }),
  ]);
  return [...direct, ...byGlob];
}

/**
 * The active listeners by channel. Read from the store for every batch, so that a subscription or webhook created before
 * an event was accepted receives it.
 */
export async function listenersOf(
  store: Store,
  emitter: { id: string; owner_id: string },
  names: readonly string[],
): Promise<Map<string, Listeners>> {
  const found = names.length === 0 ? [] : await subscriptionsOf(store, emitter, names);
  const listeners = new Map<string, Listeners>(names.map((name) => [name, { webhooks: [], runs: [] }]));
  if (found.length === 0) return listeners;

  const reaches = createReach(store);
  const ids = [...new Set(found.map((one) => one.listener_id))];
  const isWebhook = (id: string) => id.startsWith('wh_');
  const [webhookRows, runningRows] = await Promise.all([
    rowsById<WebhookRow>(ids.filter(isWebhook), (id) => store.collection(webhooks).get(id)),
    rowsById<Emitter>(
      ids.filter((id) => !isWebhook(id)),
      (id) => findEmitter(store, id),
    ),
  ]);

  const seen = new Set<string>();
  for (const subscription of found) {
    const { listener_id, event_name } = subscription;
    const key = `${listener_id} ${event_name}`;
    const webhook = webhookRows.get(listener_id);
    const listener = webhook ?? runningRows.get(listener_id);
    if (seen.has(key) || !listener?.active) continue;
    if (!(await reaches(subscription, emitter.owner_id))) continue;
    if (!(await reaches(subscription, listener.owner_id))) continue;
    seen.add(key);
    const channel = listeners.get(event_name)!;
    if (webhook) channel.webhooks.push(webhook);
    else channel.runs.push(listener_id);
  }
  return listeners;
}

async function rowsById<T>(ids: readonly string[], get: (id: string) => Promise<T | undefined>) {
  const rows = await Promise.all(ids.map(async (id) => [id, await get(id)] as const));
  return new Map(rows.flatMap(([id, row]) => (row ? [[id, row] as const] : [])));
}
