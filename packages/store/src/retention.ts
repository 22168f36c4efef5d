import { setImmediate as nextTurn } from 'node:timers/promises';
import { eventSortKey } from '@wellspring/core/event-id';
import { leastIdAt } from '@wellspring/core/ids';
import { type EventRow, events, type LogRow, logs } from './collections/events.ts';
import { IDEMPOTENCY_MS, idempotencyKeys } from './collections/idempotency.ts';
import { runningRuns } from './collections/running-runs.ts';
import { usage, usageDay } from './collections/users.ts';
import { deliveries } from './collections/webhooks.ts';
import type { Collection, CollectionDefinition, Row, Store, Where } from './port.ts';
import { removeAll } from './remove-all.ts';
import { pruneBundles, pruneUnpublished } from './unused-code.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const USAGE_DAYS = 90;
/** A run takes minutes; rows of runs that a crash has ended stay. */
const RUNNING_RUN_HOURS = 24;
/** Log records of an emitter that are retained, however old. */
const MIN_LOG_RECORDS = 100;
/** Errors of partitions that are reported. */
const MAX_ERRORS = 10;
/** Rows beyond the limit of a partition that are counted and removed at a time. */
const MAX_EXCESS = 1_000;

export interface Retention {
  /** Epoch ms. */
  now: number;
  /** Newest events per stream, and newest runs with logs, retained of an emitter. */
  retainEvents: number;
  /** Days for which events and logs are retained. */
  retainDays: number;
  /** Days for which deliveries are retained; longer than their retries take. */
  retainDeliveryDays: number;
  /** Stops between two batches. */
  signal?: AbortSignal;
}

/**
 * Removes old rows: events and logs beyond `retainEvents` and `retainDays`, except the newest hundred log records and
 * delayed events; deliveries beyond `retainDeliveryDays` that are not due any more; idempotency keys after 24 hours;
 * usage after 90 days; unused components and bundles. Never the outbox. Idempotent, in small writes. A failed step does not
 * prevent the others.
 * @returns the numbers of removed rows
 * @throws AggregateError with the errors of the steps that failed
 */
export async function prune(store: Store, retention: Retention) {
  const { now, signal } = retention;
  const remove = <T extends Row>(rows: CollectionDefinition<T>, where: Where<T>) =>
    removeAll(store.collection(rows), where, signal);
  const steps = {
    events: () => pruneEvents(store, retention),
    logs: () => pruneLogs(store, retention),
    deliveries: () =>
      remove(deliveries, {
        id: { lt: leastIdAt('dlv', now - retention.retainDeliveryDays * DAY_MS) },
        due_at: null,
      }),
    idempotency_keys: () => remove(idempotencyKeys, { created_at_ms: { lt: now - IDEMPOTENCY_MS } }),
    running_runs: () => remove(runningRuns, { started_at_ms: { lt: now - RUNNING_RUN_HOURS * HOUR_MS } }),
    usage: () => remove(usage, { day: { lt: usageDay(now - USAGE_DAYS * DAY_MS) } }),
    components: () => pruneUnpublished(store, signal),
    bundles: () => pruneBundles(store, now, signal),
  };
  const pruned: Record<string, number> = {};
  const errors: unknown[] = [];
  for (const [name, step] of Object.entries(steps)) {
    try {
      pruned[name] = await step();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0)
    throw new AggregateError(errors, `Retention failed: ${errors.map(String).join('; ')}`);
  return pruned as Record<keyof typeof steps, number>;
}

/** Sorts after all ids `<prefix>/<sort key>`, and before those of `<prefix>/jobs`. */
const pastAll = (prefix: string) => (prefix === '' ? '' : `${prefix}/:`);

/** Removes the oldest matching rows until `keep` are left, also if another process does so at the same time. */
async function removeBeyond<T extends Row & { sort_key: string }>(
  rows: Collection<T>,
  where: Where<T>,
  keep: number,
  signal?: AbortSignal,
): Promise<number> {
  const within = (range: { gt: string } | { lte: string }): Where<T> => ({
    ...where,
    sort_key: { ...(where.sort_key as object | undefined), ...range },
  });
  let total = 0;
  for (;;) {
    const limit = (await rows.count(where, keep + MAX_EXCESS)) - keep;
    if (limit <= 0 || signal?.aborted) return total;
    const oldest = await rows.list({ where, orderBy: 'sort_key', order: 'asc', limit, texts: false });
    const last = oldest.at(-1)?.sort_key;
    if (last === undefined) return total;
    // The other process may have removed rows since they were counted.
    if ((await rows.count(within({ gt: last }), keep)) < keep) continue;
    total += await removeAll(rows, within({ lte: last }), signal);
  }
}

/**
 * Prunes one partition after the other. A failed one does not prevent the others.
 * @param partitionOf a row, by the prefix of its id
 * @param pruneOne gets the first row of a partition; returns the number of removed rows
 * @throws AggregateError with the first errors
 */
async function pruneEach<T extends Row>(
  rows: Collection<T>,
  partitionOf: (row: T) => string,
  pruneOne: (first: T) => Promise<number>,
  signal: AbortSignal | undefined,
): Promise<number> {
  let removed = 0;
  const errors: unknown[] = [];
  for (let partition = ''; !signal?.aborted; await nextTurn()) {
    const where = { id: { gt: pastAll(partition) } } as Where<T>;
    const [first] = await rows.list({ where, order: 'asc', limit: 1, texts: false });
    if (!first) break;
    partition = partitionOf(first);
    try {
      removed += await pruneOne(first);
    } catch (error) {
      if (errors.length < MAX_ERRORS) errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, errors.map(String).join('; '));
  return removed;
}

async function pruneEvents(store: Store, { now, retainEvents, retainDays, signal }: Retention) {
  const rows = store.collection(events);
  const tooOld = { lt: eventSortKey({ ms: now - retainDays * DAY_MS, n: 0 }) };
  async function pruneStream({ partition, stream }: EventRow) {
    if (stream === '$in') return 0;
    const old = await removeAll(rows, { partition, sort_key: tooOld }, signal);
    return old + (await removeBeyond(rows, { partition }, retainEvents, signal));
  }
  return pruneEach(rows, ({ partition }) => partition, pruneStream, signal);
}

async function pruneLogs(store: Store, { now, retainEvents, retainDays, signal }: Retention) {
  const rows = store.collection(logs);
  const tooOld = eventSortKey({ ms: now - retainDays * DAY_MS, n: 0 });
  async function pruneEmitter({ emitter_id, sort_key }: LogRow) {
    const isMany = (await rows.count({ emitter_id }, retainEvents + 1)) > retainEvents;
    if (sort_key >= tooOld && !isMany) return 0;
    const edge = await oldestKept(rows, emitter_id);
    if (edge === undefined) return 0;
    const older: Where<LogRow> = { emitter_id, sort_key: { lt: edge } };
    const old = { emitter_id, sort_key: { lt: [edge, tooOld].sort()[0]! } };
    const removed = await removeAll(rows, old, signal);
    const kept = await rows.count({ emitter_id, sort_key: { gte: edge } });
    return removed + (await removeBeyond(rows, older, Math.max(0, retainEvents - kept), signal));
  }
  return pruneEach(rows, ({ emitter_id }) => emitter_id, pruneEmitter, signal);
}

/** Sort key of the oldest of the rows with the newest MIN_LOG_RECORDS records; undefined if there are fewer. */
async function oldestKept(rows: Collection<LogRow>, emitter_id: string) {
  let records = 0;
  let before: string | undefined;
  for (;;) {
    const where = before === undefined ? { emitter_id } : { emitter_id, sort_key: { lt: before } };
    const page = await rows.list({ where, orderBy: 'sort_key', limit: 20, texts: false });
    for (const row of page) {
      records += row.count;
      if (records >= MIN_LOG_RECORDS) return row.sort_key;
    }
    before = page.at(-1)?.sort_key;
    if (before === undefined) return undefined;
  }
}
