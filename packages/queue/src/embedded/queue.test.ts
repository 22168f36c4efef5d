import { cp, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { createMemory } from '@wellspring/core/memory';
import { Unavailable } from '@wellspring/core/unavailable';
import { type Database, openDatabase } from '@wellspring/sqlite/database';
import { eventually } from '@wellspring/testing/eventually';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { tempDir } from '@wellspring/testing/temp-dir';
import { queueConformance } from '../conformance.ts';
import { type Job, MAX_ATTEMPTS } from '../port.ts';
import { createEmbeddedQueue } from './queue.ts';

async function open() {
  const directory = await tempDir();
  const clock = createFakeClock();
  const closers: (() => Promise<void>)[] = [];
  const databases: Database[] = [];
  function at(path: string) {
    const db = openDatabase(join(path, 'wellspring.db'));
    databases.push(db);
    const queue = createEmbeddedQueue(db, { clock, log: silentLog, memory });
    closers.push(async () => {
      await queue.close();
      await db.close();
    });
    return queue;
  }
  const memory = createMemory(128 * 1024 ** 2);
  const home = join(directory.path, 'data');
  let crashes = 0;
  const queue = at(home);
  return {
    queue,
    db: databases[0]!,
    memory,
    clock,
    now: clock.now,
    /** The clock stands still during writes. */
    async advance(ms: number) {
      for (const db of databases) await db.write(() => {});
      await clock.advance(ms);
    },
    /** Copies the files without checkpoint or close. */
    async afterCrash() {
      crashes += 1;
      const copy = join(directory.path, `crash-${crashes}`);
      await mkdir(copy);
      await cp(home, copy, { recursive: true, filter: (source) => !source.endsWith('-shm') });
      return at(copy);
    },
    async close() {
      for (const close of closers) await close();
      await directory.remove();
    },
  };
}

queueConformance('embedded', open);

test('after a restart, jobs that may have been handed out before are flagged as redelivered; new ones are not', async () => {
  const subject = await open();
  const stop = new AbortController();
  const out = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  await subject.queue.publish('runs', { key: 'a', payload: '"out"' });
  const consumed = subject.queue.consume(
    'runs',
    async ([{ redelivered }]) => {
      expect(redelivered).toBeUndefined();
      out.resolve();
      await held.promise;
    },
    { signal: stop.signal },
  );
  await out.promise;
  const after = await subject.afterCrash();
  await after.publish('runs', { key: 'a', payload: '"new"' });
  const seen: unknown[] = [];
  const again = after.consume(
    'runs',
    async ([{ payload, redelivered }]) => {
      seen.push([payload, redelivered]);
    },
    { signal: stop.signal },
  );
  await eventually(() => seen.length === 2);
  expect(seen).toEqual([
    ['"out"', true],
    ['"new"', undefined],
  ]);
  stop.abort();
  held.resolve();
  await Promise.all([consumed, again]);
  await subject.close();
});

test('a failed job is flagged as redelivered', async () => {
  const { queue, advance, close } = await open();
  const stop = new AbortController();
  const seen: (true | undefined)[] = [];
  const ended = queue.consume(
    'runs',
    async ([job]) => {
      if (seen.push(job.redelivered) === 1) throw new Unavailable('at the moment');
    },
    { signal: stop.signal },
  );
  await queue.publish('runs', { key: 'a', payload: '1' });
  for (let i = 0; i < 1000 && seen.length < 2; i++) await advance(500);
  expect(seen).toEqual([undefined, true]);
  stop.abort();
  await ended;
  await close();
});

test('jobs inserted with a write of the database are handed out once they are durable, and gone when it is rolled back', async () => {
  const { queue, db, close } = await open();
  const stop = new AbortController();
  const seen: string[] = [];
  const ended = queue.consume('emitted', async (jobs) => void seen.push(...jobs.map((job) => job.payload)), {
    batch: 10,
    signal: stop.signal,
  });
  const failing = db.write(() => {
    queue.insert('emitted', [{ key: 'a', payload: '"never"' }]);
    throw new Error('rolled back');
  });
  await expect(failing).rejects.toThrow('rolled back');
  const stored = await db.write(() => queue.insert('emitted', [{ key: 'a', payload: '1' }]));
  const published = queue.publish('emitted', { key: 'a', payload: '2' });
  stored();
  await published;
  await eventually(() => seen.length === 2);
  expect(seen).toEqual(['1', '2']);
  await eventually(async () => (await queue.depth('emitted')) === 0);
  stop.abort();
  await ended;
  await close();
});

test('a backlog is handed out in order from rows, and few of its jobs are in memory', async () => {
  const subject = await open();
  const { queue, memory } = subject;
  const COUNT = 3_000;
  const payloads = Array.from({ length: COUNT }, (_, n) => JSON.stringify([n, 'x'.repeat(50_000)]));
  for (let at = 0; at < COUNT; at += 100) {
    const jobs = payloads.slice(at, at + 100).map((payload) => ({ key: `k${at % 300}`, payload }));
    await queue.publishMany('emitted', jobs);
    expect(memory.waiting.used).toBeLessThanOrEqual(memory.waiting.total);
  }
  const after = await subject.afterCrash();
  const stop = new AbortController();
  const seen = new Map<string, number[]>();
  let most = 0;
  let [running, count] = [0, 0];
  const ended = after.consume(
    'emitted',
    async (jobs) => {
      running += 1;
      most = Math.max(most, memory.emitted.used);
      const size = jobs.reduce((sum, { payload }) => sum + payload.length, 0);
      expect(size).toBeLessThanOrEqual(1024 * 1024);
      await after.ping();
      const numbers = jobs.map(({ payload }) => (JSON.parse(payload) as [number])[0]);
      seen.set(jobs[0].key, [...(seen.get(jobs[0].key) ?? []), ...numbers]);
      count += jobs.length;
      running -= 1;
    },
    { batch: 64, signal: stop.signal },
  );
  await eventually(() => count === COUNT, { ms: 20_000 });
  for (const numbers of seen.values()) expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
  expect(most).toBeLessThanOrEqual(memory.emitted.total);
  expect(running).toBe(0);
  stop.abort();
  await ended;
  await subject.close();
}, 60_000);

test('payloads beyond the cache limit are read from the database', async () => {
  const subject = await open();
  const large = JSON.stringify('x'.repeat(8 * 1024 * 1024));
  for (let i = 0; i < 10; i++) await subject.queue.publish('runs', { key: `k${i}`, payload: large });
  const stop = new AbortController();
  const seen = await new Promise<Job[]>((resolve) => {
    const jobs: Job[] = [];
    void subject.queue.consume(
      'runs',
      async ([job]) => {
        if (jobs.push(job) === 10) resolve(jobs);
      },
      { concurrency: 2, signal: stop.signal },
    );
  });
  expect(seen.every(({ payload }) => payload === large)).toBe(true);
  stop.abort();
  await subject.close();
});

test('jobs finished while the database refused writes are not redelivered after a restart', async () => {
  const subject = await open();
  const { queue, db } = subject;
  const stop = new AbortController();
  const done: string[] = [];
  await queue.publishMany(
    'runs',
    [1, 2].map((n) => ({ key: 'a', payload: String(n) })),
  );
  await db.write(() =>
    db.exec(
      `CREATE TEMP TRIGGER full BEFORE DELETE ON jobs BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`,
    ),
  );
  const consumed = queue.consume('runs', async ([job]) => void done.push(job.payload), {
    concurrency: 1,
    signal: stop.signal,
  });
  await eventually(() => done.length === 2);
  await subject.advance(60_000);
  await db.write(() => db.exec('DROP TRIGGER full'));
  await subject.advance(60_000);
  stop.abort();
  await consumed;
  const after = await subject.afterCrash();
  expect(await after.depth('runs')).toBe(0);
  await subject.close();
});

test('jobs before one that always fails do not become dead letters', async () => {
  const subject = await open();
  const { queue } = subject;
  const stop = new AbortController();
  const done = new Set<string>();
  await queue.publish('runs', { key: 'a', payload: '0' });
  await queue.publishMany(
    'runs',
    ['1', '2', '3', 'bad', '4', '5'].map((payload) => ({ key: 'a', payload })),
  );
  const consumed = queue.consume(
    'runs',
    async (jobs) => {
      for (const { payload } of jobs) {
        if (payload === 'bad') throw new Error('always');
        done.add(payload);
      }
    },
    { concurrency: 1, batch: 10, signal: stop.signal },
  );
  for (let i = 0; i < 1000 && (await queue.depth('runs')) > 0; i++) await subject.advance(10_000);
  expect([...done]).toEqual(['0', '1', '2', '3', '4', '5']);
  expect(await queue.deadLetters.list()).toMatchObject([{ payload: 'bad', attempts: MAX_ATTEMPTS }]);
  stop.abort();
  await consumed;
  await subject.close();
});

test('failures while the database refuses writes count no attempt, and the job continues soon afterwards', async () => {
  const subject = await open();
  const { queue, db } = subject;
  const stop = new AbortController();
  const attempts: number[] = [];
  const times: number[] = [];
  let failing = true;
  await queue.publish('runs', { key: 'a', payload: '1' });
  for (const [name, what] of [
    ['full1', 'UPDATE ON jobs'],
    ['full2', 'INSERT ON dead_letters'],
  ]) {
    await db.write(() =>
      db.exec(
        `CREATE TEMP TRIGGER ${name} BEFORE ${what} BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`,
      ),
    );
  }
  const consumed = queue.consume(
    'runs',
    async ([job]) => {
      attempts.push(job.attempt);
      times.push(subject.now());
      if (failing) throw new Error('the disk is full');
    },
    { concurrency: 1, signal: stop.signal },
  );
  for (let i = 0; i < 1000 && attempts.length < 2 * MAX_ATTEMPTS; i++) await subject.advance(500);
  await db.write(() => db.exec('DROP TRIGGER full1; DROP TRIGGER full2'));
  // An attempt that began earlier still fails.
  const before = attempts.length;
  for (let i = 0; i < 100 && attempts.length === before; i++) await subject.advance(10_000);
  failing = false;
  for (let i = 0; i < 100 && (await queue.depth('runs')) > 0; i++) await subject.advance(10_000);
  expect(new Set(attempts.slice(0, before))).toEqual(new Set([1]));
  expect(attempts.at(-1)).toBeGreaterThan(1);
  expect(await queue.deadLetters.list()).toEqual([]);
  // Precision: one step of the test's clock.
  expect(times[30]! - times[29]!).toBeGreaterThanOrEqual(1_500);
  expect(times[30]! - times[29]!).toBeLessThanOrEqual(3_000);
  stop.abort();
  await consumed;
  await subject.close();
});
