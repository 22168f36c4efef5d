import type { DueJob, EmittedMessage } from '@wellspring/contract/messages';
import { parseSortKey } from '@wellspring/core/event-id';
import { derivedRunId } from '@wellspring/core/ids';
import { createSleeper } from '@wellspring/core/sleeper';
import { publishRows } from '@wellspring/queue/publish-rows';
import type { Deps } from '@wellspring/runtime/deps';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import { type DelayedRow, delayed } from '@wellspring/store/collections/delayed';
import type { Where } from '@wellspring/store/port';
import { LEASE_MS } from './lease.ts';
import { takeOver } from './take-over.ts';

/** Events claimed in one turn. */
const BATCH_SIZE = 200;
/** When more are due: owners that get a turn in between, and events of each. */
const OWNERS_PER_TURN = 20;
const OWNER_BATCH_SIZE = 20;
/** Polls for events that another process stored. */
const MAX_SLEEP_MS = 5_000;
const RETRY_DELAY_MS = 1_000;
/** A job this late may have been published before. */
const REDELIVERED_AFTER_MS = 5_000;

/** Delayed events: stored with their due time, and handed to the runner of their emitter when due. */
export interface DelayedEvents {
  /** Stores the due times of a commit. Idempotent. */
  store(messages: readonly EmittedMessage[]): Promise<void>;
  worker: BackgroundWorker;
}

/**
 * A claim is a lease, and the job has an id derived from the event: a crash before the row is removed publishes the job
 * again, which the runner recognizes.
 */
export function createDelayedEvents({
  store,
  queue,
  clock,
  log,
  config,
}: Pick<Deps, 'store' | 'queue' | 'clock' | 'log' | 'config'>): DelayedEvents {
  const rows = store.collection(delayed);
  const startedAt = clock.now();
  let takenOver = config.mode === 'distributed';
  let ownersAfter = '';
  const sleeper = createSleeper(clock);

  /** Publishes the jobs of due rows. @returns the number of those that were found, and of those not published */
  async function release(
    where: Where<DelayedRow>,
    limit: number,
  ): Promise<{ count: number; failed: number }> {
    const now = clock.now();
    const due = await rows.claim(
      { where: { ...where, due_at: { lte: now } }, orderBy: 'due_at', order: 'asc', limit },
      { due_at: now + LEASE_MS },
    );
    if (due.length === 0) return { count: 0, failed: 0 };
    const { failed, error } = await publishRows(queue, 'runs', {
      rows: due,
      jobOf: (row) => ({
        key: row.emitter_id,
        payload: JSON.stringify(jobOf(row, now - row.delivery_ts > REDELIVERED_AFTER_MS)),
      }),
      end: (published) => rows.removeWhere({ id: { in: published.map(({ id }) => id) } }),
    });
    if (failed > 0) log.warn({ count: failed, error }, 'delayed.release_failed');
    log.debug({ count: due.length - failed }, 'delayed.released');
    return { count: due.length, failed };
  }

  /**
   * Gives a few owners a turn, so that the many events of one do not hold up theirs.
   * @returns whether a job was published
   */
  async function serveOwners(): Promise<boolean> {
    const owners: string[] = [];
    for (let n = 0; n < OWNERS_PER_TURN; n++) {
      const [next] = await rows.list({
        where: { owner_id: { gt: ownersAfter } },
        orderBy: 'owner_id',
        order: 'asc',
        limit: 1,
      });
      ownersAfter = next?.owner_id ?? '';
      if (!next) break;
      owners.push(next.owner_id);
    }
    const released = await Promise.all(owners.map((owner_id) => release({ owner_id }, OWNER_BATCH_SIZE)));
    return released.some(({ count, failed }) => failed < count);
  }

  /** Until the next row is due. */
  async function sleep(signal: AbortSignal): Promise<void> {
    const [next] = await rows.list({ orderBy: 'due_at', order: 'asc', limit: 1 });
    const ms = (next?.due_at ?? Number.POSITIVE_INFINITY) - clock.now();
    await sleeper.sleep(Math.min(MAX_SLEEP_MS, ms), signal);
  }

  return {
    async store(messages) {
      const found = messages.flatMap((message) =>
        (message.delayed ?? []).map(({ sort_key, due_at, trace_id }): DelayedRow => {
          const { emitter_id, owner_id } = message;
          const delayMs = due_at - parseSortKey(sort_key).ms;
          // A loop this slow is a schedule.
          const hop = delayMs >= config.minIntervalSeconds * 1000 ? 0 : message.hop;
          const id = `${emitter_id}/$in/${sort_key}`;
          return { id, emitter_id, owner_id, sort_key, due_at, delivery_ts: due_at, hop, trace_id };
        }),
      );
      if (found.length === 0) return;
      await rows.insertMany(found);
      sleeper.wake();
    },
    worker: {
      name: 'delayed-events',
      async run(signal) {
        while (!signal.aborted) {
          try {
            if (!takenOver) {
              await takeOver(rows, startedAt, ({ due_at, delivery_ts }) => due_at > delivery_ts);
              takenOver = true;
            }
            await sleep(signal);
            const { count, failed } = await release({}, BATCH_SIZE);
            if (count < BATCH_SIZE) continue;
            const isServing = await serveOwners();
            // The queue is unavailable: a lease of the whole backlog would hold it up afterwards.
            if (failed === count && !isServing) await clock.sleep(RETRY_DELAY_MS, signal);
          } catch (error) {
            log.error({ error: String(error) }, 'delayed.release_failed');
            await clock.sleep(RETRY_DELAY_MS, signal);
          }
        }
      },
    },
  };
}

function jobOf(row: DelayedRow, redelivered: boolean): DueJob {
  const { id, emitter_id, sort_key, delivery_ts, hop, trace_id } = row;
  return {
    v: 1,
    type: 'due',
    run_id: derivedRunId(id),
    source_id: emitter_id,
    sort_key,
    due_at: delivery_ts,
    hop,
    trace_id,
    ...(redelivered && { redelivered: true }),
  };
}
