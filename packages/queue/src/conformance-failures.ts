import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import {
  type DeadLetter,
  type Handler,
  type Job,
  type JobInput,
  MAX_ATTEMPTS,
  NewerVersion,
  PoisonJob,
  type Queue,
} from './port.ts';

export const job = (key: string, payload: unknown): JobInput => ({ key, payload: JSON.stringify(payload) });
export const values = (jobs: readonly Job[]): unknown[] => jobs.map(({ payload }) => JSON.parse(payload));

interface Bench {
  queue: Queue;
  now(): number;
  consume(handler: Handler, options?: { batch?: number; signal?: AbortSignal }): Promise<void>;
  /** Advances the clock in steps of this many ms until the condition holds. */
  until(condition: () => boolean | Promise<boolean>, step?: number): Promise<void>;
  /** Consumes this many jobs, in order. */
  drain(count: number): Promise<Job[]>;
}

/** Makes jobs of one key dead letters, in order. */
async function bury({ queue, consume, until }: Bench, jobs: readonly JobInput[]): Promise<void> {
  await queue.publishMany('runs', jobs);
  const end = new AbortController();
  const ended = consume(
    async ([first]) => {
      throw new PoisonJob(first.id, 'no');
    },
    { signal: end.signal },
  );
  await until(async () => (await queue.deadLetters.count()) === jobs.length);
  end.abort();
  await ended;
}

/** Part of the conformance suite: failures, redelivery and dead letters. */
export function failuresConformance(bench: () => Bench): void {
  test('failed jobs are redelivered in the same order with increasing backoff', async () => {
    const { queue, now, consume, until } = bench();
    await queue.publishMany('runs', [job('a', 1), job('a', 2), job('b', 'other')]);
    const tries: { values: unknown[]; attempt: number; at: number }[] = [];
    let others = 0;
    consume(
      async (jobs) => {
        if (jobs[0].key === 'b') {
          others += 1;
          return;
        }
        tries.push({ values: values(jobs), attempt: jobs[0].attempt, at: now() });
        if (tries.length < 4) throw new Error('not now');
      },
      { batch: 5 },
    );
    await until(() => others === 1 && tries.length === 1);
    await queue.publish('runs', job('a', 3));
    await until(() => tries.length === 4);
    expect(tries.map((one) => one.attempt)).toEqual([1, 2, 3, 4]);
    for (const one of tries) expect(one.values.slice(0, 2)).toEqual([1, 2]);
    const delays = tries.slice(1).map(({ at }, i) => at - tries[i]!.at);
    expect(delays[0]).toBeGreaterThanOrEqual(100);
    expect(delays[1]).toBeGreaterThan(delays[0]!);
    expect(delays[2]).toBeGreaterThan(delays[1]!);
    expect(others).toBe(1);
    await until(async () => (await queue.depth('runs')) === 0);
  });

  test('a poison job becomes a dead letter at once, and the rest of its batch continues in order', async () => {
    const { queue, now, consume, until } = bench();
    const done: unknown[] = [];
    await queue.publishMany('runs', [job('a', 1), job('a', 'bad'), job('a', 2)]);
    consume(
      async (jobs) => {
        const bad = jobs.find(({ payload }) => payload === '"bad"');
        if (bad) throw new PoisonJob(bad.id, 'cannot be read');
        done.push(...values(jobs));
      },
      { batch: 5 },
    );
    await until(() => done.length === 2);
    expect(done).toEqual([1, 2]);
    const [letter, ...more] = await queue.deadLetters.list();
    expect(more).toEqual([]);
    expect(letter).toMatchObject({ queue: 'runs', key: 'a', payload: '"bad"', attempts: 1 });
    expect(letter?.reason).toContain('cannot be read');
    expect(letter?.died_at).toBeLessThanOrEqual(now());
  });

  test('a job that always fails becomes a dead letter after MAX_ATTEMPTS, and its successors continue', async () => {
    const { queue, consume, until } = bench();
    await queue.publishMany('runs', [job('a', 'hopeless'), job('a', 'next')]);
    let failures = 0;
    const done: unknown[] = [];
    consume(async (jobs) => {
      if (jobs[0].payload === '"hopeless"') {
        failures += 1;
        throw new Error('always');
      }
      done.push(...values(jobs));
    });
    await until(() => done.length === 1, 5_000);
    expect(failures).toBe(MAX_ATTEMPTS);
    expect(await queue.deadLetters.list()).toMatchObject([{ payload: '"hopeless"', attempts: MAX_ATTEMPTS }]);
  });

  test('dead letters are listed newest first, redriven to the end of their queue, and dropped', async () => {
    const one = bench();
    const { queue, drain } = one;
    await bury(one, [job('a', 1), job('a', 2), job('a', 3)]);

    const [third, second] = await queue.deadLetters.list({ limit: 2 });
    const [first, ...none] = await queue.deadLetters.list({ after: second!.id });
    expect([first, second, third].map((letter) => letter?.payload)).toEqual(['1', '2', '3']);
    expect(none).toEqual([]);

    expect(await queue.deadLetters.drop(third!.id)).toBe(true);
    expect(await queue.deadLetters.drop(third!.id)).toBe(false);
    expect(await queue.deadLetters.count()).toBe(2);
    for (const unknown of ['0', '-1', 'x', '', '99999999', '1e400'])
      expect(await queue.deadLetters.redrive(unknown)).toBe(false);

    await queue.publish('runs', job('a', 'before'));
    expect(await queue.deadLetters.redrive(first!.id)).toBe(true);
    expect(await queue.deadLetters.redrive(first!.id)).toBe(false);
    const seen = await drain(2);
    expect(values(seen)).toEqual(['before', 1]);
    // Parts of it may have been done before it was given up.
    expect(seen.map(({ redelivered }) => redelivered)).toEqual([undefined, true]);
    expect(seen[1]).toMatchObject({ key: 'a', attempt: 1 });
    expect(await queue.deadLetters.list()).toEqual([second]);
  });

  test('a list of dead letters with large payloads is shorter, and the next one goes on', async () => {
    const one = bench();
    const { queue } = one;
    const text = 'x'.repeat(5 * 1024 ** 2);
    await bury(
      one,
      [1, 2, 3].map((n) => job('a', `${n}${text}`)),
    );
    const begins = (letters: readonly DeadLetter[]) => letters.map(({ payload }) => payload.slice(0, 2));
    const newest = await queue.deadLetters.list();
    expect(begins(newest)).toEqual(['"3', '"2']);
    expect(begins(await queue.deadLetters.list({ after: newest.at(-1)!.id }))).toEqual(['"1']);
  });

  test('after next() the following batch of the key starts; when the first then fails, its jobs are redelivered, and draining waits for it', async () => {
    const { queue, consume, until } = bench();
    await queue.publishMany('runs', [job('a', 1), job('a', 2), job('a', 3)]);
    const started: unknown[] = [];
    const first = Promise.withResolvers<void>();
    const again = Promise.withResolvers<void>();
    const end = new AbortController();
    let ended = false;
    const consumer = consume(
      async (jobs, next) => {
        const nth = started.push(...values(jobs));
        next();
        next();
        if (nth === 1) await first.promise;
        else if (nth > 3) await again.promise;
      },
      { signal: end.signal },
    ).then(() => {
      ended = true;
    });
    await until(() => started.length === 3);
    await until(async () => (await queue.depth('runs')) === 1);
    first.reject(new Error('not now'));
    await until(() => started.length === 4);
    expect(started).toEqual([1, 2, 3, 1]);
    end.abort();
    await until(async () => true);
    expect(ended).toBe(false);
    again.resolve();
    await consumer;
    await until(async () => (await queue.depth('runs')) === 0);
  });

  test('after next() a failure holds back its own jobs for the backoff, and each job is handled', async () => {
    const { queue, now, consume, until } = bench();
    const tries: number[] = [];
    const done = new Set<unknown>();
    consume(
      async (jobs, next) => {
        next();
        if (values(jobs).includes('bad')) {
          tries.push(now());
          await Promise.resolve();
          if (tries.length < 4) throw new Error('not now');
        }
        for (const value of values(jobs)) done.add(value);
      },
      { batch: 3 },
    );
    await queue.publishMany('runs', [job('a', 'bad'), ...[1, 2, 3, 4, 5].map((n) => job('a', n))]);
    await until(() => done.size === 6);
    expect(tries[1]! - tries[0]!).toBeGreaterThanOrEqual(100);
    expect(tries[3]! - tries[2]!).toBeGreaterThan(tries[1]! - tries[0]!);
    await until(async () => (await queue.depth('runs')) === 0);
  });

  test('a job of a newer version waits without limit and counts no attempt; jobs before it are handled, those after it wait in order', async () => {
    const { queue, consume, until } = bench();
    await queue.publishMany('runs', [job('a', 1), job('a', 2), job('a', 'newer'), job('a', 3)]);
    const done: unknown[] = [];
    let refused = 0;
    const older = new AbortController();
    const ended = consume(
      async (jobs) => {
        const newer = jobs.find(({ payload }) => payload === '"newer"');
        if (newer) {
          refused += 1;
          throw new NewerVersion(newer.id, 2);
        }
        done.push(...values(jobs));
      },
      { batch: 5, signal: older.signal },
    );
    await until(() => done.length === 2 && refused > 2 * MAX_ATTEMPTS, 500);
    await queue.publish('runs', job('b', 'other'));
    await until(() => done.length === 3, 500);
    expect(done).toEqual([1, 2, 'other']);
    expect(await queue.deadLetters.count()).toBe(0);
    older.abort();
    await ended;
    const seen: Job[] = [];
    void consume(async (jobs) => void seen.push(...jobs), { batch: 5 });
    await until(() => seen.length >= 2, 500);
    expect(seen.map(({ payload, attempt }) => [payload, attempt])).toEqual([
      ['"newer"', 1],
      ['3', 1],
    ]);
  });

  test('Unavailable counts no attempt: jobs are redelivered within 2 s, without limit', async () => {
    const { queue, now, consume, until } = bench();
    await queue.publishMany('runs', [job('a', 1), job('a', 2)]);
    const tries: number[] = [];
    const attempts = new Set<number>();
    const done: unknown[] = [];
    consume(async (jobs) => {
      attempts.add(jobs[0].attempt);
      if (tries.push(now()) <= 2 * MAX_ATTEMPTS) throw new Unavailable('the database is away');
      done.push(...values(jobs));
    });
    await until(() => done.length === 2, 500);
    expect([done, attempts]).toEqual([[1, 2], new Set([1])]);
    const delays = tries.slice(1, 2 * MAX_ATTEMPTS).map((at, i) => at - tries[i]!);
    // Precision: one step of the test's clock.
    expect(Math.max(...delays)).toBeLessThanOrEqual(2_000 + 2 * 500);
    expect(await queue.deadLetters.list()).toEqual([]);
  });
}
