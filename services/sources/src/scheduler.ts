import type { RunJob } from '@wellspring/contract/messages';
import { derivedRunId } from '@wellspring/core/ids';
import { nextAfter, nextTick, type Schedule } from '@wellspring/core/schedule';
import { TIMERS_CHANGED } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import { type TimerRow, timers } from '@wellspring/store/collections/sources';

/** Polling interval, in case a wake-up is lost. */
const MAX_SLEEP_MS = 5_000;
const BATCH_SIZE = 200;
/** Retry delay of a schedule that is no longer valid, e.g. because its time zone was abolished. */
const INVALID_SCHEDULE_DELAY_MS = 24 * 3_600_000;
/** Tolerated difference between the clocks of schedulers. */
const MAX_CLOCK_SKEW_MS = 5_000;
const REDELIVERED_AFTER_MS = 5_000;

/**
 * Publishes a run for each due timer, then advances the timer. After a crash in between, the same run id is published
 * again, which the runner recognizes: no tick is lost or runs twice, with any number of schedulers. Ticks missed while
 * no scheduler ran are replaced with one run. After the clock was put back, timers follow the new time.
 */
export function schedulerWorker({
  store,
  queue,
  pubsub,
  clock,
  log,
}: Pick<Deps, 'store' | 'queue' | 'pubsub' | 'clock' | 'log'>): BackgroundWorker {
  const rows = store.collection(timers);

  async function tick(row: TimerRow): Promise<void> {
    const [due, now] = [row.due_at!, clock.now()];
    const job: RunJob = {
      v: 1,
      type: 'run',
      run_id: tickRunId(row.id, due),
      source_id: row.source_id,
      trigger: {
        kind: 'timer',
        prop: row.prop,
        due_at: due,
        ...(row.interval_seconds === null ? {} : { interval_seconds: row.interval_seconds }),
        ...(row.cron === null ? {} : { cron: row.cron, timezone: row.timezone ?? 'UTC' }),
      },
      hop: 0,
      trace_id: tickRunId(row.id, due),
      accepted_at: now,
      // It may have been published before without its timer being advanced.
      ...(now - due > REDELIVERED_AFTER_MS && { redelivered: true }),
    };
    await queue.publish('runs', { key: row.source_id, payload: JSON.stringify(job) });
    // Only if the timer was not changed meanwhile.
    await rows.patch(row.id, { due_at: following(row, due) }, { due_at: due });
  }

  function following(row: TimerRow, due: number): number {
    try {
      return nextTick(scheduleOf(row), due, clock.now());
    } catch (error) {
      // It was valid when it was set; it must not stop other timers.
      log.error({ timer: row.id, error: String(error) }, 'timer.bad_schedule');
      return clock.now() + INVALID_SCHEDULE_DELAY_MS;
    }
  }

  /** Reschedules timers that were set before the clock was put back: none is due later than its next tick. */
  async function bringForward(): Promise<void> {
    const now = clock.now();
    for (const row of await rows.list({ where: { due_at: { gt: now + MAX_CLOCK_SKEW_MS } } })) {
      const next = nextOf(row, now);
      if (next !== undefined && row.due_at! > next + MAX_CLOCK_SKEW_MS)
        await rows.patch(row.id, { due_at: next }, { due_at: row.due_at! });
    }
  }

  return {
    name: 'sources.scheduler',
    async run(signal) {
      let seen = Number.POSITIVE_INFINITY;
      let wake = () => {};
      let woken = false;
      const unsubscribe = pubsub.subscribe(TIMERS_CHANGED, () => {
        woken = true;
        wake();
      });
      try {
        while (!signal.aborted) {
          woken = false;
          if (clock.now() < seen - MAX_CLOCK_SKEW_MS) await bringForward();
          seen = clock.now();
          const due = await rows.list({
            where: { due_at: { lte: clock.now() } },
            orderBy: 'due_at',
            order: 'asc',
            limit: BATCH_SIZE,
          });
          if (due.length > 0) {
            await Promise.all(due.map(tick));
            log.debug({ count: due.length }, 'timers.fired');
            continue;
          }
          const [next] = await rows.list({
            where: { due_at: { gt: clock.now() } },
            orderBy: 'due_at',
            order: 'asc',
            limit: 1,
          });
          if (woken) continue;
          const stop = new AbortController();
          wake = () => stop.abort();
          const ms = Math.min(
            MAX_SLEEP_MS,
            Math.max(0, (next?.due_at ?? Number.MAX_SAFE_INTEGER) - clock.now()),
          );
          await clock.sleep(ms, AbortSignal.any([signal, stop.signal]));
        }
      } finally {
        unsubscribe();
      }
    },
  };
}

/** Deterministic per timer and due time. */
export const tickRunId = (timerId: string, due: number): string => derivedRunId(`${timerId}@${due}`);

/** Undefined: the schedule is no longer valid. */
function nextOf(row: TimerRow, now: number): number | undefined {
  try {
    return nextAfter(scheduleOf(row), now);
  } catch {
    return undefined;
  }
}

const scheduleOf = (row: TimerRow): Schedule =>
  row.cron === null
    ? { kind: 'interval', seconds: row.interval_seconds! }
    : { kind: 'cron', cron: row.cron, timezone: row.timezone ?? 'UTC' };
