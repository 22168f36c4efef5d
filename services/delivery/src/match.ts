import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Emitter, findEmitter } from '@wellspring/store/collections/emitters';
import { createReach, subscriptionsTo } from '@wellspring/store/collections/subscription-reach';
import { type SubscriptionRow, subscriptions } from '@wellspring/store/collections/subscriptions';
import { type WebhookRow, webhooks } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';

/** Rows read at once. */
const PAGE_SIZE = 200;

/** Listeners of one channel of an emitter, without duplicates. */
export interface Listeners {
  webhooks: WebhookRow[];
  /** Sources and workflows, which run. */
  runs: Pick<Emitter, 'id' | 'concurrency'>[];
  /** The emitter has several subscriptions, to any channels. */
  isShared: boolean;
}

/** Of a replay for one listener: only that one. */
export function onlyListener(found: Listeners, only: string | undefined): Listeners {
  if (only === undefined) return found;
  const isIt = ({ id }: { id: string }) => id === only;
  return { ...found, webhooks: found.webhooks.filter(isIt), runs: found.runs.filter(isIt) };
}

/** Subscriptions of an emitter on these channels, by id or by pattern. */
async function subscriptionsOf(
  store: Store,
  emitter: { id: string; owner_id: string },
  names: readonly string[],
): Promise<{ found: SubscriptionRow[]; isShared: boolean }> {
  const collection = store.collection(subscriptions);
  const conditions = subscriptionsTo(emitter);
  const [found, counts] = await Promise.all([
    Promise.all(
      conditions.map((where) => collection.list({ where: { ...where, event_name: { in: names } } })),
    ),
    Promise.all(conditions.map((where) => collection.count(where, 2))),
  ]);
  return { found: found.flat(), isShared: counts.reduce((sum, count) => sum + count, 0) > 1 };
}

/** The active listeners by channel. */
export async function listenersOf(
  store: Store,
  emitter: { id: string; owner_id: string },
  names: readonly string[],
): Promise<Map<string, Listeners>> {
  if (names.length === 0) return new Map();
  const { found, isShared } = await subscriptionsOf(store, emitter, names);
  const listeners = new Map<string, Listeners>(
    names.map((name) => [name, { webhooks: [], runs: [], isShared }]),
  );
  if (found.length === 0) return listeners;

  const reaches = createReach(store);
  const ids = [...new Set(found.map((one) => one.listener_id))];
  const isWebhook = (id: string) => id.startsWith('wh_');
  const [webhookRows, runningRows] = await Promise.all([
    readPages(ids.filter(isWebhook), async (page) => {
      const rows = await store.collection(webhooks).list({ where: { id: { in: page } } });
      return rows.map(withoutTexts);
    }),
    readPages(
      ids.filter((id) => !isWebhook(id)),
      (page) => Promise.all(page.map((id) => findEmitter(store, id))),
    ),
  ]);

  const seen = new Set<string>();
  for (const subscription of found) {
    const { listener_id, event_name } = subscription;
    const key = `${listener_id} ${event_name}`;
    const webhook = webhookRows.get(listener_id);
    const running = runningRows.get(listener_id);
    const listener = webhook ?? running;
    if (seen.has(key) || !listener?.active) continue;
    if (!(await reaches(subscription, emitter.owner_id))) continue;
    if (!(await reaches(subscription, listener.owner_id))) continue;
    seen.add(key);
    const channel = listeners.get(event_name)!;
    if (webhook) channel.webhooks.push(webhook);
    else if (running) channel.runs.push({ id: listener_id, concurrency: running.concurrency });
  }
  return listeners;
}

/** Without texts that are only for people: they would fill the cache of listeners. */
const withoutTexts = (row: WebhookRow): WebhookRow => ({ ...row, name: null, description: null });

/** The rows that there are, by id. */
async function readPages<T extends { id: string }>(
  ids: readonly string[],
  read: (page: readonly string[]) => Promise<readonly (T | undefined)[]>,
): Promise<Map<string, T>> {
  const rows = new Map<string, T>();
  for (let n = 0; n < ids.length; n += PAGE_SIZE) {
    if (n > 0) await nextTurn();
    for (const row of await read(ids.slice(n, n + PAGE_SIZE))) if (row) rows.set(row.id, row);
  }
  return rows;
}
