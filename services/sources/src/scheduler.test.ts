import { describe, expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { TIMERS_CHANGED } from '@wellspring/pubsub/port';
import { forEachTest } from '@wellspring/testing/lifetimes';
import fc from 'fast-check';
import { createHarness, FAULTS, type Fault, START, timer } from './scheduler.fixture.ts';
import { LEASE_MS, tickRunId } from './scheduler.ts';

describe('the scheduler', () => {
  const h = forEachTest(createHarness);

  test('sleeps until the next timer is due and wakes when timers change', async () => {
    await h.rows.insert(timer({ interval_seconds: 60, due_at: START + 4000 }));
    await h.start();
    expect(h.wakesAt()).toBe(START + 4000);
    await h.rows.insert(timer({ id: 'dc_0000000002/timer', interval_seconds: 5, due_at: START + 2000 }));
    h.pubsub.publish(TIMERS_CHANGED);
    await new Promise(setImmediate);
    await h.settled();
    expect(h.wakesAt()).toBe(START + 2000);
    await h.pass(2000);
    expect(h.dues()).toEqual([START + 2000]);
  });

  test('polls every 5 s, in case a wake-up is lost', async () => {
    await h.rows.insert(timer({ interval_seconds: 60 }));
    await h.start();
    expect(h.wakesAt()).toBe(START + 5000);
  });

  test('tells the run what ticked', async () => {
    await h.rows.insert(timer({ cron: '*/5 * * * *', timezone: 'Europe/Berlin', due_at: START + 270_000 }));
    await h.start();
    await h.pass(270_000);
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
  });

  test('leaves a timer that was set while it ticked as it was set', async () => {
    await h.rows.insert(timer({ interval_seconds: 60 }));
    await h.start();
    h.advance(60_000);
    // Disabled between reading and advancing the timer.
    await h.rows.patch('dc_0000000001/timer', { due_at: null });
    await h.settled();
    expect((await h.rows.get('dc_0000000001/timer'))?.due_at).toBeNull();
  });

  test('fires the timers of other sources while a part of the queue is unavailable, and the rest afterwards', async () => {
    const [stuck, other] = ['dc_0000000001', 'dc_0000000002'] as const;
    for (const source_id of [stuck, other])
      await h.rows.insert(timer({ id: `${source_id}/timer`, source_id, interval_seconds: 60 }));
    h.unavailable.add(stuck);
    h.up();
    for (const beats of [1, 2]) {
      await h.settled();
      await h.pass(60_000);
      expect(h.jobs.map(({ source_id }) => source_id)).toEqual(Array(beats).fill(other));
    }
    h.unavailable.clear();
    await h.pass(LEASE_MS);
    expect(h.jobs).toHaveLength(3);
    expect(h.jobs[2]).toMatchObject({
      run_id: tickRunId(`${stuck}/timer`, START + 60_000),
      redelivered: true,
    });
  });

  test('leases one batch of a backlog a second while the whole queue is unavailable', async () => {
    const ids = Array.from({ length: 1_200 }, (_, i) => `dc_${String(i).padStart(10, '0')}`);
    const rows = ids.map((id) =>
      timer({ id: `${id}/timer`, source_id: id, interval_seconds: 60, due_at: START }),
    );
    await h.rows.insertMany(rows);
    for (const id of ids) h.unavailable.add(id);
    const waiting = () => h.rows.count({ lease_until: null });
    await h.start();
    expect(await waiting()).toBe(700);
    await h.pass(1_000);
    expect(await waiting()).toBe(200);
  });

  test('publishes a tick once, however many schedulers run', async () => {
    await h.rows.insert(timer({ interval_seconds: 60 }));
    const stop = new AbortController();
    const running = [1, 2, 3].map(() => h.another().run(stop.signal));
    for (let i = 1; i <= 10; i++) {
      await h.asleep(3);
      h.advance(60_000);
    }
    await h.asleep(3);
    const beats = Array.from({ length: 10 }, (_, i) => START + (i + 1) * 60_000);
    expect(h.dues()).toEqual(beats);
    expect((await h.rows.get('dc_0000000001/timer'))?.due_at).toBe(START + 660_000);
    stop.abort();
    await Promise.all(running);
  });

  test('marks no tick as redelivered because it is late', async () => {
    await h.rows.insert(timer({ interval_seconds: 60 }));
    h.advance(3_600_000);
    await h.start();
    expect(h.jobs.map(({ redelivered }) => redelivered)).toEqual([undefined]);
  });

  test('publishes the tick of a scheduler that died again, with the same run id and marked, once its lease has expired', async () => {
    await h.rows.insert(timer({ interval_seconds: 60 }));
    await h.start();
    await h.pass(60_000, 'after publish');
    expect(h.jobs.length).toBe(1);
    await h.pass(LEASE_MS);
    expect(h.jobs.map(({ run_id, redelivered }) => [run_id, redelivered])).toEqual([
      [tickRunId('dc_0000000001/timer', START + 60_000), undefined],
      [tickRunId('dc_0000000001/timer', START + 60_000), true],
    ]);
    expect((await h.rows.get('dc_0000000001/timer'))?.lease_until).toBeNull();
  });

  test('continues after a schedule that is no longer valid', async () => {
    await h.rows.insert(
      timer({
        id: 'dc_0000000002/timer',
        source_id: 'dc_0000000002',
        cron: '* * * * *',
        timezone: 'Middle/Earth',
      }),
    );
    await h.rows.insert(timer({ interval_seconds: 60 }));
    await h.start();
    for (let i = 0; i < 3; i++) {
      await h.pass(60_000);
    }
    expect(h.jobs.filter(({ source_id }) => source_id === 'dc_0000000001').length).toBe(3);
  });

  test('runs everything that is due, however much', async () => {
    const ids = Array.from({ length: 501 }, (_, i) => `dc_${String(i).padStart(10, '0')}`);
    await h.rows.insertMany(
      ids.map((id) => timer({ id: `${id}/timer`, source_id: id, interval_seconds: 60 })),
    );
    await h.start();
    await h.pass(60_000);
    expect(h.jobs.map(({ source_id }) => source_id).sort()).toEqual(ids);
  });

  test.each([
    ['interval', { interval_seconds: 60 }, 60_000],
    ['cron', { cron: '* * * * *' }, 30_000],
  ])('does not wait for the old time when the clock is put back (%s)', async (_kind, schedule, first) => {
    const HOUR = 3_600_000;
    await h.rows.insert(timer({ ...schedule, due_at: START + first }));
    await h.start();
    await h.pass(first);
    h.advance(-HOUR);
    const back = h.clock.now();
    // The sleep that was begun before ends at the old time; it is never long.
    h.advance(0);
    h.pubsub.publish(TIMERS_CHANGED);
    await new Promise(setImmediate);
    await h.settled();
    expect(h.wakesAt()).toBeLessThanOrEqual(back + 60_000);
    await h.pass(60_000);
    expect(h.dues()).toEqual([START + first, back + 60_000]);
  });

  test('does not wait for the time of a clock that was put back while no scheduler ran', async () => {
    await h.rows.insert(timer({ interval_seconds: 60, due_at: START + 3_600_000 }));
    await h.rows.insert(timer({ id: 'dc_0000000002/timer', interval_seconds: 60, due_at: null }));
    await h.start();
    await h.pass(60_000);
    expect(h.dues()).toEqual([START + 60_000]);
    expect((await h.rows.get('dc_0000000002/timer'))?.due_at).toBeNull();
  });

  test('looks at all timers once, page by page, also when it is restarted after a failure', async () => {
    const ids = Array.from({ length: 250 }, (_, i) => `dc_${String(i).padStart(10, '0')}`);
    await h.rows.insertMany(
      ids.map((id) => timer({ id: `${id}/timer`, source_id: id, interval_seconds: 60, due_at: START + 3e6 })),
    );
    const limits: unknown[] = [];
    let isFull = true;
    const worker = h.another({
      list(options) {
        limits.push(options?.limit);
        return h.rows.list(options);
      },
      async claim(...args) {
        if (isFull) throw new Unavailable('The disk is full.');
        return h.rows.claim(...args);
      },
    });
    const stop = new AbortController();
    await expect(worker.run(stop.signal)).rejects.toThrow('The disk is full.');
    // No leased timers; three pages of waiting ones.
    expect(limits.splice(0)).toEqual([100, 100, 100, 100]);
    expect(await h.rows.count({ due_at: START + 60_000 })).toBe(250);
    isFull = false;
    const running = worker.run(stop.signal);
    await h.asleep();
    expect(limits.splice(0)).toEqual([1]);
    stop.abort();
    await running;
  });

  const fault = fc.constantFrom<Fault>(...FAULTS);
  const step = fc.record({ seconds: fc.integer({ min: 0, max: 400 }), down: fc.boolean(), fault });

  test('loses no tick, publishes none twice without a mark, and makes up for missed ones by one run, wherever it dies', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 120 }),
        fc.array(step, { maxLength: 12 }),
        async (seconds, steps) => {
          const h = createHarness();
          const beat = seconds * 1000;
          const row = async () => (await h.rows.get('dc_0000000001/timer'))!;
          try {
            await h.rows.insert(timer({ interval_seconds: seconds, due_at: START + beat }));
            await h.start();
            for (const { seconds: passed, down, fault: with_ } of steps) {
              const due = (await row()).due_at!;
              const before = new Set(h.dues()).size;
              if (down) await h.down();
              h.advance(passed * 1000);
              if (down) h.up();
              const isDue = due <= h.clock.now();
              await h.settled(with_);
              if ((await row()).lease_until !== null) {
                await h.pass(LEASE_MS);
                // The claimed tick comes first, then perhaps one for all that fell due during the lease.
              } else {
                expect(new Set(h.dues()).size - before).toBe(isDue ? 1 : 0);
              }
              if (isDue) expect([...new Set(h.dues())][before]).toBe(due);
              const now = h.clock.now();
              const next = (await row()).due_at!;
              expect(next).toBeGreaterThan(now);
              expect(next - now).toBeLessThanOrEqual(beat);
              expect((next - START) % beat).toBe(0);
            }
            const first = h.jobs.filter(({ redelivered }) => redelivered !== true);
            expect(new Set(first.map(({ run_id }) => run_id)).size).toBe(first.length);
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
