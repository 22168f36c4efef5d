import { fdatasync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import { eventually } from '@wellspring/testing/eventually';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { numbers } from '@wellspring/testing/numbers';
import type { Handler } from '../port.ts';
import { openSubject } from './subject.fixture.ts';

const closing = closeAfterEach();

test('after a restart, jobs that may have been handed out before are flagged as redelivered; new ones are not', async () => {
  const subject = closing(await openSubject());
  const out = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  await subject.queue.publish('runs', { key: 'a', payload: '"out"' });
  subject.consume('runs', async ([{ redelivered }]) => {
    expect(redelivered).toBeUndefined();
    out.resolve();
    await held.promise;
  });
  await out.promise;
  const after = await subject.afterCrash();
  await after.publish('runs', { key: 'a', payload: '"new"' });
  const seen: unknown[] = [];
  const see: Handler = async ([{ payload, redelivered }]) => void seen.push([payload, redelivered]);
  subject.consume('runs', see, {}, after);
  await eventually(() => seen.length === 2);
  expect(seen).toEqual([
    ['"out"', true],
    ['"new"', undefined],
  ]);
  held.resolve();
});

test('a failed job is flagged as redelivered', async () => {
  const { queue, advance, consume } = closing(await openSubject());
  const seen: (true | undefined)[] = [];
  consume('runs', async ([job]) => {
    if (seen.push(job.redelivered) === 1) throw new Unavailable('at the moment');
  });
  await queue.publish('runs', { key: 'a', payload: '1' });
  for (let i = 0; i < 1000 && seen.length < 2; i++) await advance(500);
  expect(seen).toEqual([undefined, true]);
});

test('jobs inserted with a write of the database are handed out once they are durable, and gone when it is rolled back', async () => {
  const { queue, db, consume } = closing(await openSubject());
  const seen: string[] = [];
  consume('emitted', async (jobs) => void seen.push(...jobs.map((job) => job.payload)), { batch: 10 });
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
});

test('jobs and messages of commits whose fsync failed are handed out once, before later ones', async () => {
  let isBroken = false;
  const { queue, db, consume } = closing(
    await openSubject({
      sync(file, done) {
        if (!isBroken) fdatasync(file, done);
        else setImmediate(() => done(Object.assign(new Error('EIO'), { code: 'EIO' })));
      },
    }),
  );
  const store = createEmbeddedStore(db, ({ emitter_id, message }) =>
    queue.insert('emitted', [{ key: emitter_id, payload: message }]),
  );
  const commit = () =>
    store.commitRun({
      state: { id: 'a', epoch: 1, db: {}, dedupe: {}, last_ids: {} },
      ifVersion: 0,
      events: [],
      logs: [],
      outbox: { id: 'run_1', emitter_id: 'a', created_at_ms: 0, message: '"committed"' },
    });
  const seen: string[] = [];
  for (const name of ['runs', 'emitted'] as const) {
    const see: Handler = async (jobs) => void seen.push(...jobs.map(({ payload }) => `${name} ${payload}`));
    consume(name, see, { batch: 10 });
  }
  const several = Array.from({ length: 300 }, (_, n) => ({ key: 'a', payload: `${n + 1}` }));
  await queue.publish('runs', { key: 'a', payload: '0' });
  isBroken = true;
  const refused = await Promise.allSettled([commit(), queue.publishMany('runs', several)]);
  for (const one of refused) expect(one).toMatchObject({ reason: { name: 'Unavailable' } });
  isBroken = false;
  await queue.publish('runs', { key: 'a', payload: '301' });
  // The commit is made: its repetition is refused.
  expect(await commit()).toBe(false);
  await eventually(() => seen.length === 303);
  expect(seen.filter((one) => one !== 'emitted "committed"')).toEqual(numbers(302).map((n) => `runs ${n}`));
  await eventually(async () => (await queue.depth('runs')) + (await queue.depth('emitted')) === 0);
});

test('a backlog is handed out in order from rows, and few of its jobs are in memory', async () => {
  const subject = closing(await openSubject());
  const { queue, memory } = subject;
  const COUNT = 3_000;
  const payloads = Array.from({ length: COUNT }, (_, n) => JSON.stringify([n, 'x'.repeat(50_000)]));
  for (let at = 0; at < COUNT; at += 100) {
    const jobs = payloads.slice(at, at + 100).map((payload) => ({ key: `k${at % 300}`, payload }));
    await queue.publishMany('emitted', jobs);
    expect(memory.waiting.used).toBeLessThanOrEqual(memory.waiting.total);
  }
  const after = await subject.afterCrash();
  const seen = new Map<string, number[]>();
  let most = 0;
  let [running, count] = [0, 0];
  subject.consume(
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
    { batch: 64 },
    after,
  );
  await eventually(() => count === COUNT, { ms: 20_000 });
  for (const numbers of seen.values()) expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
  expect(most).toBeLessThanOrEqual(memory.emitted.total);
  expect(running).toBe(0);
}, 60_000);

test('waiting jobs that cannot be read for a while are handled later, in order', async () => {
  const { queue, db, advance, consume } = closing(await openSubject());
  const { statement } = db;
  let failures = 0;
  const seen: number[] = [];
  await queue.publishMany(
    'runs',
    Array.from({ length: 600 }, (_, n) => ({ key: 'a', payload: `${n}` })),
  );
  Object.assign(db, {
    statement(sql: string) {
      // A page of waiting jobs.
      if (/LIMIT/.test(sql) && seen.length > 0 && failures < 5) {
        failures += 1;
        throw new Error('disk I/O error');
      }
      return statement(sql);
    },
  });
  consume('runs', async ([{ payload }]) => void seen.push(Number(payload)));
  await eventually(async () => {
    await advance(1_000);
    return seen.length === 600;
  });
  expect(failures).toBe(5);
  expect(seen).toEqual(numbers(600));
});
