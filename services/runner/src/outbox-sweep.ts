import { withTimeout } from '@wellspring/core/with-timeout';
import type { Deps } from '@wellspring/runtime/deps';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import { byCommit, type OutboxRow, outbox } from '@wellspring/store/collections/outbox';
import type { OutboxRelay } from './outbox-relay.ts';

const SWEEP_INTERVAL_MS = 10_000;
/** Younger rows are still being published by their run, unless an older one follows them. */
const MIN_AGE_MS = 30_000;
const PAGE_SIZE = 100;
/** Time in which a page is published, unless a part of the queue is unavailable. */
const CONFIRM_TIMEOUT_MS = 1_000;

/**
 * Publishes outbox rows that a crash left between commit and publish: those of an emitter in order, until one fails.
 * Emitters whose part of the queue is unavailable hold up no others.
 */
export function outboxSweep(
  { store, clock, log }: Pick<Deps, 'store' | 'clock' | 'log'>,
  relay: Pick<OutboxRelay, 'publishStored'>,
): BackgroundWorker {
  const rows = store.collection(outbox);

  /** The oldest rows, or those that follow `after`, without their messages; rows of the same time in the order of their ids. */
  async function page(until: number, after?: OutboxRow): Promise<OutboxRow[]> {
    const options = { order: 'asc', limit: PAGE_SIZE, texts: false } as const;
    if (!after)
      return rows.list({ ...options, where: { created_at_ms: { lte: until } }, orderBy: 'created_at_ms' });
    const { created_at_ms, id } = after;
    const same = await rows.list({ ...options, where: { created_at_ms, id: { gt: id } } });
    if (same.length > 0) return same;
    const where = { created_at_ms: { gt: created_at_ms, lte: until } };
    return rows.list({ ...options, where, orderBy: 'created_at_ms' });
  }

  /** The rows of these emitters, in order, each up to its last one that is not young. */
  async function rowsOf(emitters: ReadonlySet<string>, until: number): Promise<OutboxRow[][]> {
    if (emitters.size === 0) return [];
    const all = await rows.list({ where: { emitter_id: { in: [...emitters] } }, texts: false });
    return [...Map.groupBy(all, ({ emitter_id }) => emitter_id).values()].flatMap((own) => {
      own.sort(byCommit);
      const last = own.findLastIndex(({ created_at_ms }) => created_at_ms <= until);
      return last < 0 ? [] : [own.slice(0, last + 1)];
    });
  }

  async function sweep(signal: AbortSignal): Promise<void> {
    const until = clock.now() - MIN_AGE_MS;
    /** Emitters whose rows are being published, or could not be. */
    const held = new Set<string>();
    const errors: unknown[] = [];
    let count = 0;

    async function publishInOrder(left: readonly OutboxRow[]): Promise<void> {
      const { emitter_id } = left[0]!;
      held.add(emitter_id);
      try {
        for (const row of left) if (await relay.publishStored(row)) count += 1;
        held.delete(emitter_id);
      } catch (error) {
        errors.push(error);
      }
    }

    const begun: Promise<void>[] = [];
    let found = await page(until);
    while (found.length > 0 && !signal.aborted) {
      const ready = new Set(found.map(({ emitter_id }) => emitter_id)).difference(held);
      const publications = (await rowsOf(ready, until)).map(publishInOrder);
      begun.push(...publications);
      await withTimeout(Promise.all(publications), CONFIRM_TIMEOUT_MS);
      found = await page(until, found.at(-1));
    }
    await Promise.all(begun);
    if (count > 0) log.info({ count }, 'outbox.swept');
    if (errors.length > 0)
      log.warn({ count: errors.length, error: String(errors[0]) }, 'outbox.sweep_failed');
  }

  return {
    name: 'runner.outbox-sweep',
    async run(signal) {
      while (!signal.aborted) {
        await sweep(signal);
        await clock.sleep(SWEEP_INTERVAL_MS, signal);
      }
    },
  };
}
