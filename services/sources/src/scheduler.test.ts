import { describe, expect, test } from '@jest/globals';
import type { RunJob } from '@wellspring/contract/messages';
import type { Clock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { createEmbeddedPubSub } from '@wellspring/pubsub/embedded';
import { TIMERS_CHANGED } from '@wellspring/pubsub/port';
import { createEmbeddedQueue } from '@wellspring/queue/embedded';
import type { Queue } from '@wellspring/queue/port';
import { openDatabase } from '@wellspring/sqlite/database';
import { type TimerRow, timers } from '@wellspring/store/collections/sources';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import type { Store } from '@wellspring/store/port';
import fc from 'fast-check';
import { schedulerWorker, tickRunId } from './scheduler.ts';

const START = Date.UTC(2026, 0, 1, 12, 0, 30);

/** Time that stands still until it is told to move; then it jumps, as it does for a process that was held up. */
function createClock() {
  let now = START;
  let sleepers: { at: number; wake: () => void }[] = [];
  const watchers: (() => void)[] = [];
  const clock: Clock = {
    now: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const sleeper = { at: now + ms, wake: () => {} };
        sleeper.wake = () => {
          sleepers = sleepers.filter((other) => other !== sleeper);
          signal?.removeEventListener('abort', sleeper.wake);
          resolve();
        };
        signal?.addEventListener('abort', sleeper.wake, { once: true });
        sleepers.push(sleeper);
        for (const seen of watchers.splice(0)) seen();
      }),
  };
  return {
    clock,
    /** Resolves when that many sleep. */
    async asleep(count = 1) {
      while (sleepers.length < count) await new Promise<void>((resolve) => watchers.push(resolve));
    },
    wakesAt: () => Math.min(...sleepers.map(({ at }) => at)),
    advance(ms: number) {
      now += ms;
      for (const sleeper of [...sleepers]) if (sleeper.at <= now) sleeper.wake();
    },
  };
}

type Fault = 'none' | 'before publish' | 'after publish' | 'before patch' | 'after patch';

/** A scheduler on real adapters that can be made to die at each of its writes. */
function createHarness() {
  const db = openDatabase(':memory:');
  const time = createClock();
  const store = createEmbeddedStore(db);
  const pubsub = createEmbeddedPubSub({ log: silentLog });
  const queue = createEmbeddedQueue(db, { clock: time.clock, log: silentLog });
  const jobs: RunJob[] = [];
  let fault: Fault = 'none';
  const dieIf = (here: Fault) => {
    if (fault !== here) return;
    fault = 'none';
    throw new Error('killed');
  };
  const dyingQueue: Queue = {
    ...queue,
    async publish(name, job) {
      dieIf('before publish');
      await queue.publish(name, job);
      jobs.push(JSON.parse(job.payload) as RunJob);
      dieIf('after publish');
    },
  };
  const rows = store.collection(timers);
  const dyingRows = {
    ...rows,
    async patch(...args: Parameters<typeof rows.patch>) {
      dieIf('before patch');
      const patched = await rows.patch(...args);
      dieIf('after patch');
      return patched;
    },
  };
  const dyingStore: Store = { ...store, collection: (() => dyingRows) as never };
  let abort = new AbortController();
  let running: Promise<void> | undefined;

  const harness = {
    rows,
    jobs,
    pubsub,
    ...time,
    dues: () => jobs.map(({ trigger }) => (trigger.kind === 'timer' ? trigger.due_at : Number.NaN)),
    another: () =>
      schedulerWorker({ store: dyingStore, queue: dyingQueue, pubsub, clock: time.clock, log: silentLog }),
    up() {
      abort = new AbortController();
      running = harness.another().run(abort.signal);
      running.catch(() => {});
    },
    async down() {
      abort.abort();
      await running?.catch(() => {});
    },
    /** Until all due timers fired; a scheduler that dies is restarted, as the supervisor does. */
    async settled(with_: Fault = 'none') {
      fault = with_;
      time.advance(0);
      for (;;) {
        const died = await Promise.race([
          time.asleep().then(() => false),
          running!.then(
            () => false,
            () => true,
          ),
        ]);
        if (!died) break;
        harness.up();
      }
      fault = 'none';
    },
    async close() {
      await harness.down();
      await queue.close();
      await db.close();
    },
  };
  return harness;
}

const timer = (fields: Partial<TimerRow>): TimerRow => ({
  id: 'dc_0000000001/timer',
  source_id: 'dc_0000000001',
  prop: 'timer',
  interval_seconds: null,
  cron: null,
  timezone: null,
  due_at: START + 60_000,
  ...fields,
});

describe('the scheduler', () => {
  test('sleeps until the next timer is due and wakes when timers change', async () => {
    const h = createHarness();
    await h.rows.insert(timer({ interval_seconds: 60, due_at: START + 4000 }));
    h.up();
    await h.settled();
    expect(h.wakesAt()).toBe(START + 4000);
    await h.rows.insert(timer({ id: 'dc_0000000002/timer', interval_seconds: 5, due_at: START + 2000 }));
    h.pubsub.publish(TIMERS_CHANGED);
    await new Promise(setImmediate);
    await h.settled();
    expect(h.wakesAt()).toBe(START + 2000);
    h.advance(2000);
    await h.settled();
    expect(h.dues()).toEqual([START + 2000]);
    await h.close();
  });

  test('polls every 5 s, in case a wake-up is lost', async () => {
    const h = createHarness();
    await h.rows.insert(timer({ interval_seconds: 60 }));
    h.up();
    await h.settled();
    expect(h.wakesAt()).toBe(START + 5000);
    await h.close();
  });

  test('tells the run what ticked', async () => {
    const h = createHarness();
    await h.rows.insert(timer({ cron: '*/5 * * * *', timezone: 'Europe/Berlin', due_at: START + 270_000 }));
    h.up();
    await h.settled();
    h.advance(270_000);
    await h.settled();
    expect(h.jobs).toEqual([
      {
        v: 1,
        type: 'run',
        run_id: tickRunId('dc_0000000001/timer', START + 270_000),
        source_id: 'dc_0000000001',
        trigger: {
          kind: 'timer',
          prop: 'timer',
          due_at: START + 270_000,
          cron: '*/5 * * * *',
          timezone: 'Europe/Berlin',
        },
        hop: 0,
        trace_id: expect.any(String),
        accepted_at: START + 270_000,
      },
    ]);
    expect((await h.rows.get('dc_0000000001/timer'))?.due_at).toBe(START + 570_000);
    await h.close();
  });

  test('leaves a timer that was set while it ticked as it was set', async () => {
    const h = createHarness();
    await h.rows.insert(timer({ interval_seconds: 60 }));
    h.up();
    await h.settled();
    h.advance(60_000);
    // Disabled between the look at the timer and its move.
    await h.rows.patch('dc_0000000001/timer', { due_at: null });
    await h.settled();
    expect((await h.rows.get('dc_0000000001/timer'))?.due_at).toBeNull();
    await h.close();
  });

  test('may run several times over: a tick published twice has one run id', async () => {
    const h = createHarness();
    await h.rows.insert(timer({ interval_seconds: 60 }));
    const stop = new AbortController();
    const running = [1, 2, 3].map(() => h.another().run(stop.signal));
    for (let i = 1; i <= 10; i++) {
      await h.asleep(3);
      h.advance(60_000);
    }
    await h.asleep(3);
    const beats = Array.from({ length: 10 }, (_, i) => START + (i + 1) * 60_000);
    expect([...new Set(h.dues())]).toEqual(beats);
    expect(new Set(h.jobs.map(({ run_id }) => run_id)).size).toBe(10);
    expect((await h.rows.get('dc_0000000001/timer'))?.due_at).toBe(START + 660_000);
    stop.abort();
    await Promise.all(running);
    await h.close();
  });

  test('goes on when a schedule cannot be read any more', async () => {
    const h = createHarness();
    await h.rows.insert(
      timer({
        id: 'dc_0000000002/timer',
        source_id: 'dc_0000000002',
        cron: '* * * * *',
        timezone: 'Middle/Earth',
      }),
    );
    await h.rows.insert(timer({ interval_seconds: 60 }));
    h.up();
    await h.settled();
    for (let i = 0; i < 3; i++) {
      h.advance(60_000);
      await h.settled();
    }
    expect(h.jobs.filter(({ source_id }) => source_id === 'dc_0000000001').length).toBe(3);
    await h.close();
  });

  test('runs everything that is due, however much', async () => {
    const h = createHarness();
    const ids = Array.from({ length: 501 }, (_, i) => `dc_${String(i).padStart(10, '0')}`);
    await h.rows.insertMany(
      ids.map((id) => timer({ id: `${id}/timer`, source_id: id, interval_seconds: 60 })),
    );
    h.up();
    await h.settled();
    h.advance(60_000);
    await h.settled();
    expect(h.jobs.map(({ source_id }) => source_id).sort()).toEqual(ids);
    await h.close();
  });

  test.each([
    ['interval', { interval_seconds: 60 }, 60_000],
    ['cron', { cron: '* * * * *' }, 30_000],
  ])('does not wait for the old time when the clock is put back (%s)', async (_kind, schedule, first) => {
    const h = createHarness();
    const HOUR = 3_600_000;
    await h.rows.insert(timer({ ...schedule, due_at: START + first }));
    h.up();
    await h.settled();
    h.advance(first);
    await h.settled();
    h.advance(-HOUR);
    const back = h.clock.now();
    // The sleep that was begun before ends at the old time; it is never long.
    h.advance(0);
    h.pubsub.publish(TIMERS_CHANGED);
    await new Promise(setImmediate);
    await h.settled();
    expect(h.wakesAt()).toBeLessThanOrEqual(back + 60_000);
    h.advance(60_000);
    await h.settled();
    expect(h.dues()).toEqual([START + first, back + 60_000]);
    await h.close();
  });

  test('does not wait for the time of a clock that was put back while no scheduler ran', async () => {
    const h = createHarness();
    await h.rows.insert(timer({ interval_seconds: 60, due_at: START + 3_600_000 }));
    await h.rows.insert(timer({ id: 'dc_0000000002/timer', interval_seconds: 60, due_at: null }));
    h.up();
    await h.settled();
    h.advance(60_000);
    await h.settled();
    expect(h.dues()).toEqual([START + 60_000]);
    expect((await h.rows.get('dc_0000000002/timer'))?.due_at).toBeNull();
    await h.close();
  });

  const fault = fc.constantFrom<Fault>(
    'none',
    'before publish',
    'after publish',
    'before patch',
    'after patch',
  );
  const step = fc.record({ seconds: fc.integer({ min: 0, max: 400 }), down: fc.boolean(), fault });

  test('loses no tick, gives none two run ids, and makes up for missed ones by one run, wherever it dies', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 120 }),
        fc.array(step, { maxLength: 12 }),
        async (seconds, steps) => {
          const h = createHarness();
          const beat = seconds * 1000;
          try {
            await h.rows.insert(timer({ interval_seconds: seconds, due_at: START + beat }));
            h.up();
            await h.settled();
            for (const { seconds: passed, down, fault: with_ } of steps) {
              const due = (await h.rows.get('dc_0000000001/timer'))!.due_at!;
              const before = new Set(h.dues()).size;
              if (down) await h.down();
              h.advance(passed * 1000);
              if (down) h.up();
              await h.settled(with_);
              const now = h.clock.now();
              // One run for all that fell due, at the time of the first.
              expect(new Set(h.dues()).size - before).toBe(due <= now ? 1 : 0);
              if (due <= now) expect(h.dues().at(-1)).toBe(due);
              const next = (await h.rows.get('dc_0000000001/timer'))!.due_at!;
              expect(next).toBeGreaterThan(now);
              expect(next - now).toBeLessThanOrEqual(beat);
              expect((next - START) % beat).toBe(0);
            }
            const ids = new Map(h.jobs.map((job, i) => [job.run_id, h.dues()[i]]));
            expect(ids.size).toBe(new Set(h.dues()).size);
          } finally {
            await h.close();
          }
        },
      ),
      { numRuns: 60 },
    );
  });
});
