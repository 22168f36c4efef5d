import type { RunJob } from '@wellspring/contract/messages';
import type { Clock } from '@wellspring/core/clock';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Queue } from '@wellspring/queue/port';
import { type TimerRow, timers } from '@wellspring/store/collections/sources';
import type { Store } from '@wellspring/store/port';
import { openPorts } from '@wellspring/testing/service-harness';
import { schedulerWorker } from './scheduler.ts';

export const START = Date.UTC(2026, 0, 1, 12, 0, 30);

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

export const FAULTS = [
  'none',
  'before claim',
  'after claim',
  'after publish',
  'before patch',
  'after patch',
] as const;
export type Fault = (typeof FAULTS)[number];

/** A scheduler on real adapters that can be made to die at each of its writes. */
export function createHarness() {
  const time = createClock();
  const ports = openPorts({ clock: time.clock });
  const { store, queue, pubsub } = ports;
  const jobs: RunJob[] = [];
  let fault: Fault = 'none';
  const dieIf = (here: Fault) => {
    if (fault !== here) return;
    fault = 'none';
    throw new Error('killed');
  };
  /** Sources whose part of the queue is unavailable. */
  const unavailable = new Set<string>();
  const dyingQueue: Queue = {
    ...queue,
    publish: (name, job) => dyingQueue.publishMany(name, [job]),
    async publishMany(name, some) {
      if (some.some(({ key }) => unavailable.has(key))) throw new Unavailable('no leader');
      await queue.publishMany(name, some);
      for (const { payload } of some) jobs.push(JSON.parse(payload) as RunJob);
      dieIf('after publish');
    },
  };
  const rows = store.collection(timers);
  const dyingRows = {
    ...rows,
    async claim(...args: Parameters<typeof rows.claim>) {
      dieIf('before claim');
      const claimed = await rows.claim(...args);
      if (claimed.length > 0) dieIf('after claim');
      return claimed;
    },
    async patch(...args: Parameters<typeof rows.patch>) {
      dieIf('before patch');
      const patched = await rows.patch(...args);
      dieIf('after patch');
      return patched;
    },
  };
  const storeOf = (some: Partial<typeof rows>): Store => ({
    ...store,
    collection: (() => ({ ...dyingRows, ...some })) as never,
  });
  let abort = new AbortController();
  let running: Promise<void> | undefined;

  const harness = {
    rows,
    jobs,
    unavailable,
    pubsub,
    ...time,
    dues: () => jobs.map(({ trigger }) => (trigger.kind === 'timer' ? trigger.due_at : Number.NaN)),
    /** @param some operations on timers that it has instead of the real ones */
    another: (some: Partial<typeof rows> = {}) =>
      schedulerWorker({ ...ports, store: storeOf(some), queue: dyingQueue, clock: time.clock }),
    up() {
      abort = new AbortController();
      running = harness.another().run(abort.signal);
      running.catch(() => {});
    },
    async start() {
      harness.up();
      await harness.settled();
    },
    /** Moves the time, and resolves as `settled`. */
    async pass(ms: number, with_: Fault = 'none') {
      time.advance(ms);
      await harness.settled(with_);
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
      await ports.close();
    },
  };
  return harness;
}

export const timer = (fields: Partial<TimerRow>): TimerRow => ({
  id: 'dc_0000000001/timer',
  source_id: 'dc_0000000001',
  prop: 'timer',
  interval_seconds: null,
  cron: null,
  timezone: null,
  due_at: START + 60_000,
  lease_until: null,
  ...fields,
});
