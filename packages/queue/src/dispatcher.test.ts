import { expect, test } from '@jest/globals';
import { createByteBudget } from '@wellspring/core/byte-budget';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { eventually } from '@wellspring/testing/eventually';
import fc from 'fast-check';
import { createDispatcher, MAX_BATCH_BYTES } from './dispatcher.ts';
import type { JobSource, WaitingJob } from './job-source.ts';
import { createKeyQueues } from './key-queues.ts';
import type { Job } from './port.ts';

const waitingJob = (n: number, key: string, bytes: number): WaitingJob => ({
  ...{ id: String(n), key, bytes, attempts: 0, publishedAt: 0, payload: '', redelivered: undefined },
});

/** A source in memory. */
function createSource() {
  const done: WaitingJob[] = [];
  const source: JobSource<WaitingJob> = {
    start: (jobs) =>
      jobs.map(({ id, key }): Job => ({ id, key, payload: '', attempt: 1, published_at: 0, epoch: 1 })),
    leaseOf: () => () => true,
    taken() {},
    done: (jobs) => void done.push(...jobs),
    giveBack: (jobs) => jobs,
    async countAttempt() {},
    async addDeadLetter() {},
  };
  return { source, done };
}

const TOTAL = 8 * 1024 * 1024;

function open() {
  const { source, done } = createSource();
  const budget = createByteBudget(TOTAL);
  const closing = new AbortController();
  const options = { queue: 'runs', source, budget, clock: systemClock, log: silentLog } as const;
  return { dispatcher: createDispatcher({ ...options, closing: closing.signal }), done, budget, closing };
}

const plan = fc.array(
  fc.record({
    key: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    bytes: fc.oneof(fc.integer({ min: 1, max: 1_000 }), fc.integer({ min: 1, max: 6 * 1024 * 1024 })),
  }),
  { maxLength: 80 },
);

test('each job is handled once, in the order of its key, one batch of a key at a time, within the bytes of a batch and of the budget', async () => {
  await fc.assert(
    fc.asyncProperty(plan, fc.integer({ min: 1, max: 20 }), async (jobs, batch) => {
      const { dispatcher, done, budget, closing } = open();
      const stop = new AbortController();
      const busy = new Set<string>();
      const bytesOf = new Map(jobs.map(({ bytes }, n) => [String(n), bytes]));
      const ended = dispatcher.consume(
        async (handed) => {
          const [{ key }] = handed;
          expect(busy.has(key)).toBe(false);
          busy.add(key);
          const bytes = handed.reduce((sum, { id }) => sum + bytesOf.get(id)!, 0);
          if (handed.length > 1) expect(bytes).toBeLessThanOrEqual(MAX_BATCH_BYTES);
          // Jobs above half of the budget count as half.
          expect(budget.used).toBeLessThanOrEqual(TOTAL + 2 * 1024 * 1024);
          await new Promise(setImmediate);
          busy.delete(key);
        },
        { batch, signal: stop.signal },
      );
      for (const [n, { key, bytes }] of jobs.entries()) dispatcher.offer(waitingJob(n, key, bytes));
      await eventually(() => done.length === jobs.length, { every: 1 });
      stop.abort();
      await ended;
      expect(budget.used).toBe(0);
      for (const key of ['a', 'b', 'c', 'd', 'e']) {
        const seqs = done.filter((job) => job.key === key).map(({ id }) => Number(id));
        expect(seqs).toEqual(jobs.flatMap((job, n) => (job.key === key ? [n] : [])));
      }
      closing.abort();
    }),
    { numRuns: 60 },
  );
});

test('an owner with large jobs that never end leaves room for the jobs of another owner', async () => {
  const { dispatcher, closing } = open();
  const stop = new AbortController();
  const never = Promise.withResolvers<void>();
  const seen: string[] = [];
  const ended = dispatcher.consume(
    async ([{ key }]) => {
      seen.push(key);
      if (key.startsWith('large')) await never.promise;
    },
    {
      signal: stop.signal,
      admit: async (key) => ({ owner: key.startsWith('large') ? 'attacker' : 'other', release() {} }),
    },
  );
  for (let n = 0; n < 100; n += 1) dispatcher.offer(waitingJob(n, `large${n}`, 500_000));
  await eventually(() => seen.length > 0);
  dispatcher.offer(waitingJob(100, 'other', 3_000_000));
  await eventually(() => seen.includes('other'));
  expect(seen.length).toBeLessThan(12);
  never.resolve();
  await eventually(() => seen.length === 101);
  stop.abort();
  await ended;
  closing.abort();
});

test('the bytes of a batch stay counted until it has ended, also after next()', async () => {
  const { dispatcher, budget, closing } = open();
  const stop = new AbortController();
  const begun: (() => void)[] = [];
  const ended = dispatcher.consume(
    (_, next) =>
      new Promise((end) => {
        next();
        begun.push(end);
      }),
    { signal: stop.signal },
  );
  for (let n = 0; n < 3; n += 1) dispatcher.offer(waitingJob(n, 'key', 2_000_000));
  await eventually(() => begun.length === 2);
  // Twice as much is more than half of the budget.
  expect(budget.used).toBe(4_000_000);
  begun[0]!();
  await eventually(() => begun.length === 3);
  expect(budget.used).toBe(4_000_000);
  for (const end of begun) end();
  await eventually(() => budget.used === 0);
  stop.abort();
  await ended;
  closing.abort();
});

test('taking the next of 100,000 keys does not cost more than taking one of 1,000', () => {
  const measure = (count: number) => {
    const keys = createKeyQueues();
    for (let n = 0; n < count; n += 1) keys.add(waitingJob(n, `k${n}`, 1));
    const begun = process.cpuUsage();
    for (let n = 0; n < 1_000; n += 1) keys.take(keys.next()!, 1, 1);
    const { user, system } = process.cpuUsage(begun);
    return user + system;
  };
  // The figure covers all threads of the process.
  const least = (count: number) => Math.min(...[1, 2, 3].map(() => measure(count)));
  measure(1_000);
  // A set of JavaScript needs 1,000 times as long: it walks over what was deleted at its front.
  expect(least(100_000)).toBeLessThan(50 * Math.max(1_000, least(1_000)));
});
