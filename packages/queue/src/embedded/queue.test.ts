import { expect, test } from '@jest/globals';
import { openDatabase } from '@wellspring/sqlite/database';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { queueConformance } from '../conformance.ts';
import { type Job, MAX_ATTEMPTS, QUEUES } from '../port.ts';
import { openSubject } from './subject.fixture.ts';

queueConformance('embedded', () => openSubject());

const closing = closeAfterEach();

test('payloads beyond the cache limit are read from the database', async () => {
  const subject = closing(await openSubject());
  const large = JSON.stringify('x'.repeat(8 * 1024 * 1024));
  for (let i = 0; i < 10; i++) await subject.queue.publish('runs', { key: `k${i}`, payload: large });
  const seen: Job[] = [];
  subject.consume('runs', async ([job]) => void seen.push(job));
  await eventually(() => seen.length === 10);
  expect(seen.every(({ payload }) => payload === large)).toBe(true);
});

test('jobs finished while the database refused writes are not redelivered after a restart', async () => {
  const subject = closing(await openSubject());
  const { queue, db } = subject;
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
  subject.consume('runs', async ([job]) => void done.push(job.payload));
  await eventually(() => done.length === 2);
  await subject.advance(60_000);
  await db.write(() => db.exec('DROP TRIGGER full'));
  await subject.advance(60_000);
  await subject.end();
  const left = () => db.statement('SELECT count(*) AS n FROM jobs').get() as { n: number };
  await eventually(() => left().n === 0);
  const after = await subject.afterCrash();
  expect(await after.depth('runs')).toBe(0);
});

test('finished jobs are removed also after a transaction that could not begin', async () => {
  const subject = closing(await openSubject());
  const { queue, db } = subject;
  const { file } = db.statement('PRAGMA database_list').get() as { file: string };
  const other = openDatabase(file);
  db.exec('PRAGMA busy_timeout = 1');
  for (const name of QUEUES) {
    await queue.publish(name, { key: 'a', payload: '1' });
    subject.consume(name, async () => other.exec('BEGIN IMMEDIATE'));
    await eventually(async () => (await queue.depth(name)) === 0);
    const writes = Promise.all([db.write(() => {}), db.write(() => {})]);
    await expect(writes).rejects.toThrow(/locked/);
    other.exec('ROLLBACK');
    await subject.advance(1_000);
    const left = () => db.statement('SELECT count(*) AS n FROM jobs').get() as { n: number };
    await eventually(() => left().n === 0);
  }
  await other.close();
});

test('jobs before one that always fails do not become dead letters', async () => {
  const subject = closing(await openSubject());
  const { queue } = subject;
  const done = new Set<string>();
  await queue.publish('runs', { key: 'a', payload: '0' });
  await queue.publishMany(
    'runs',
    ['1', '2', '3', 'bad', '4', '5'].map((payload) => ({ key: 'a', payload })),
  );
  subject.consume(
    'runs',
    async (jobs) => {
      for (const { payload } of jobs) {
        if (payload === 'bad') throw new Error('always');
        done.add(payload);
      }
    },
    { batch: 10 },
  );
  for (let i = 0; i < 1000 && (await queue.depth('runs')) > 0; i++) await subject.advance(10_000);
  expect([...done]).toEqual(['0', '1', '2', '3', '4', '5']);
  expect(await queue.deadLetters.list()).toMatchObject([{ payload: 'bad', attempts: MAX_ATTEMPTS }]);
});

test('failures while the database refuses writes count no attempt, and the job continues soon afterwards', async () => {
  const subject = closing(await openSubject());
  const { queue, db } = subject;
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
  subject.consume('runs', async ([job]) => {
    attempts.push(job.attempt);
    times.push(subject.now());
    if (failing) throw new Error('the disk is full');
  });
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
});
