import { setImmediate as turn } from 'node:timers/promises';
import type { RunJob } from '@wellspring/contract/messages';
import { derivedRunId } from '@wellspring/core/ids';
import { nextAfter, nextTick, type Schedule } from '@wellspring/core/schedule';
import { createSleeper } from '@wellspring/core/sleeper';
import { TIMERS_CHANGED } from '@wellspring/pubsub/port';
import { publishRows } from '@wellspring/queue/publish-rows';
import type { Deps } from '@wellspring/runtime/deps';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import { type TimerRow, timers } from '@wellspring/store/collections/sources';
import type { Where } from '@wellspring/store/port';

/** Polling interval, in case a wake-up is lost. */
const MAX_SLEEP_MS = 5_000;
/** Ticks of this time are claimed together. */
const MIN_SLEEP_MS = 20;
const BATCH_SIZE = 500;
/** Timers whose next tick is computed in one turn of the event loop; that of a cron expression takes 0.14 ms. */
const PAGE_SIZE = 100;
const RETRY_DELAY_MS = 1_000;
/** Retry delay of a schedule that is no longer valid, e.g. because its time zone was abolished. */
const INVALID_SCHEDULE_DELAY_MS = 24 * 3_600_000;
/** Tolerated difference between the clocks of schedulers. */
const MAX_CLOCK_SKEW_MS = 5_000;
/** Time to publish and advance what was claimed; afterwards another scheduler does. */
export const LEASE_MS = 15_000;

/**
 * Claims due timers, publishes a run for each, then advances them: each tick is published once, with any number of
 * schedulers. After a crash in between, the timer is claimed again when its lease has expired, and the same run id is
 * published, marked as redelivered: no tick is lost or runs twice. Ticks missed while no scheduler ran are replaced with
 * one run. After the clock was put back, timers follow the new time.
 */
export function schedulerWorker({
  store,
  queue,
  pubsub,
  clock,
  log,
}: Pick<Deps, 'store' | 'queue' | 'pubsub' | 'clock' | 'log'>): BackgroundWorker {
  const rows = store.collection(timers);
  /** When expired leases were last looked for. */
  let lookedAt = Number.NEGATIVE_INFINITY;
  /** Time of the last batch; a clock that shows less was put back, perhaps while no scheduler ran. Survives a restart of the worker. */
  let seen = Number.POSITIVE_INFINITY;

  const claim = (where: Where<TimerRow>, until: number) =>
    rows.claim({ where, orderBy: 'due_at', order: 'asc', limit: BATCH_SIZE }, { lease_until: until });

  /** Only if the timer was not changed meanwhile. */
  const advance = (row: TimerRow, until: number) =>
    rows.patch(
      row.id,
      { due_at: following(row, row.due_at!), lease_until: null },
      { due_at: row.due_at, lease_until: until },
    );

  /**
   * Publishes the ticks of claimed timers and advances them.
   * @returns how long to wait before the next batch; undefined: there was no more to claim
   */
  async function fire(
    claimed: readonly TimerRow[],
    until: number,
    wasLeased: boolean,
  ): Promise<number | undefined> {
    const wait = claimed.length < BATCH_SIZE ? undefined : 0;
    // Without those that were changed or deactivated between the claim and its reading.
    const due = claimed.filter((row) => row.lease_until === until && row.due_at !== null);
    if (due.length === 0) return wait;
    const now = clock.now();
    const isLate = wasLeased || now >= until - MAX_CLOCK_SKEW_MS;
    const { failed, error } = await publishRows(queue, 'runs', {
      rows: due,
      jobOf: (row) => ({ key: row.source_id, payload: JSON.stringify(tickJob(row, now, isLate)) }),
      end: (fired) => Promise.all(fired.map((row) => advance(row, until))),
    });
    if (failed > 0) log.warn({ count: failed, error }, 'timers.publish_failed');
    log.debug({ count: due.length - failed }, 'timers.fired');
    // The queue is unavailable: a lease of the whole backlog would hold it up afterwards.
    return wait === 0 && failed === due.length ? RETRY_DELAY_MS : wait;
  }

  /** Fires a batch of due timers. @returns see `fire` */
  async function fireDue(now: number): Promise<number | undefined> {
    const until = now + LEASE_MS;
    const due = await claim({ lease_until: null, due_at: { lte: now } }, until);
    const wait = await fire(due, until, false);
    if (wait === RETRY_DELAY_MS || Math.abs(now - lookedAt) < MAX_SLEEP_MS) return wait;
    const abandoned = await claim({ lease_until: { lte: now } }, until);
    const again = await fire(abandoned, until, true);
    if (abandoned.length < BATCH_SIZE) lookedAt = now;
    return again ?? wait;
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

  /** Other work of the process goes on between the pages. */
  async function* pagesOf(where: Where<TimerRow>, signal: AbortSignal): AsyncGenerator<TimerRow[]> {
    for (let after = ''; !signal.aborted; ) {
      const page = await rows.list({
        where: { ...where, id: { gt: after } },
        orderBy: 'id',
        order: 'asc',
        limit: PAGE_SIZE,
      });
      yield page;
      if (page.length < PAGE_SIZE) return;
      after = page.at(-1)!.id;
      await turn();
    }
  }

  /** Reschedules timers that were set before the clock was put back: none is due later than its next tick. */
  async function bringForward(now: number, signal: AbortSignal): Promise<void> {
    const leased = { lease_until: { gt: now + LEASE_MS + MAX_CLOCK_SKEW_MS } };
    for await (const page of pagesOf(leased, signal))
      for (const { id, lease_until } of page) await rows.patch(id, { lease_until: now }, { lease_until });
    const waiting = { lease_until: null, due_at: { gt: now + MAX_CLOCK_SKEW_MS } };
    for await (const page of pagesOf(waiting, signal)) {
      for (const row of page) {
        const next = nextOf(row, now);
        if (next !== undefined && row.due_at! > next + MAX_CLOCK_SKEW_MS)
          await rows.patch(row.id, { due_at: next }, { due_at: row.due_at, lease_until: null });
      }
    }
  }

  return {
    name: 'sources.scheduler',
    async run(signal) {
      const sleeper = createSleeper(clock);
      const unsubscribe = pubsub.subscribe(TIMERS_CHANGED, sleeper.wake);
      try {
        while (!signal.aborted) {
          const now = clock.now();
          if (now < seen - MAX_CLOCK_SKEW_MS) await bringForward(now, signal);
          seen = clock.now();
          const wait = await fireDue(seen);
          if (wait !== undefined) {
            if (wait > 0) await clock.sleep(wait, signal);
            continue;
          }
          const [next] = await rows.list({
            where: { lease_until: null, due_at: { gt: seen } },
            orderBy: 'due_at',
            order: 'asc',
            limit: 1,
          });
          const ms = (next?.due_at ?? Number.POSITIVE_INFINITY) - clock.now();
          await sleeper.sleep(Math.min(MAX_SLEEP_MS, Math.max(MIN_SLEEP_MS, ms)), signal);
        }
      } finally {
        unsubscribe();
      }
    },
  };
}

/** Deterministic per timer and due time. */
export const tickRunId = (timerId: string, due: number): string => derivedRunId(`${timerId}@${due}`);

function tickJob(row: TimerRow, now: number, redelivered: boolean): RunJob {
  const due = row.due_at!;
  return {
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
    ...(redelivered && { redelivered: true }),
  };
}

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
