import { expect, test } from '@jest/globals';
import type { DelayedEvent, DueJob } from '@wellspring/contract/messages';
import { eventSortKey } from '@wellspring/core/event-id';
import { Unavailable } from '@wellspring/core/unavailable';
import { type DelayedRow, delayed } from '@wellspring/store/collections/delayed';
import { OWNER } from '@wellspring/testing/rows';
import { LEASE_MS } from './lease.ts';
import { until, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

/** An event emitted now. */
const inMs = (ms: number, n = 0): DelayedEvent => ({
  sort_key: eventSortKey({ ms: t.clock.now(), n }),
  due_at: t.clock.now() + ms,
  trace_id: 'trace',
});
const rows = () => t.store.collection(delayed).list({ order: 'asc' });
const rowOf = (emitter_id: string, owner_id: string, n: number): DelayedRow => {
  const { sort_key, due_at, trace_id } = inMs(-1_000, n);
  const id = `${emitter_id}/$in/${sort_key}`;
  return { id, emitter_id, owner_id, sort_key, due_at, delivery_ts: due_at, hop: 0, trace_id };
};

test('a delayed event goes to the runner when due, not before, however often its commit is published', async () => {
  const emitter = await t.source();
  t.start();
  const [soon, late] = [inMs(10_000), inMs(20_000, 1)];
  for (let n = 0; n < 2; n++) await t.emit(emitter, [], { delayed: [late, soon], hop: 3 });
  await until(
    () => t.queue.depth('emitted'),
    (depth) => depth === 0,
  );
  expect(await rows()).toHaveLength(2);
  t.clock.advance(9_000);
  expect(await t.queue.depth('runs')).toBe(0);
  t.clock.advance(1_500);
  const [job] = (await t.runs(1)) as DueJob[];
  expect(job).toMatchObject({ type: 'due', source_id: emitter, sort_key: soon.sort_key, hop: 3 });
  await until(rows, (left) => left.length === 1);
  t.clock.advance(10_000);
  const [next] = (await t.runs(1)) as DueJob[];
  // Longer than the minimum interval of timers: a schedule, not a loop.
  expect(next).toMatchObject({ sort_key: late.sort_key, hop: 0 });
  expect(next!.run_id).not.toBe(job!.run_id);
  await until(rows, (left) => left.length === 0);
});

test('the only process publishes the events that it had claimed before a crash at once', async () => {
  const row = rowOf(await t.source(), OWNER, 0);
  const claimed = { ...row, due_at: t.clock.now() + 50_000 };
  const later = {
    ...row,
    id: `${row.id}0`,
    due_at: t.clock.now() + 30_000,
    delivery_ts: t.clock.now() + 30_000,
  };
  await t.store.collection(delayed).insertMany([claimed, later]);
  t.start();
  await t.runs(1);
  expect(await until(rows, (left) => left.length === 1)).toEqual([later]);
});

test('a crash after the publish repeats the job under the same id', async () => {
  const row = rowOf(await t.source(), OWNER, 0);
  const claimed = { ...row, due_at: t.clock.now() + 50_000, delivery_ts: t.clock.now() - 9_000 };
  await t.store.collection(delayed).insert(claimed);
  t.start({ mode: 'distributed' });
  t.clock.advance(45_000);
  expect(await t.queue.depth('runs')).toBe(0);
  t.clock.advance(6_000);
  const [first] = (await t.runs(1)) as DueJob[];
  await until(rows, (left) => left.length === 0);
  await t.store.collection(delayed).insertMany([row]);
  t.clock.advance(3_000);
  const [second] = (await t.runs(1)) as DueJob[];
  expect(first!.redelivered).toBe(true);
  expect(second!.run_id).toBe(first!.run_id);
});

test('the many due events of one owner do not hold up those of another', async () => {
  const many = Array.from({ length: 3_000 }, (_, n) => rowOf('dc_0000000001', OWNER, n));
  const later = { ...rowOf('dc_0000000002', 'u_0000000002', 0), due_at: t.clock.now() - 1 };
  await t.store.collection(delayed).insertMany([...many, later]);
  t.start();
  const jobs = (await t.runs(3_001)) as DueJob[];
  expect(jobs.findIndex(({ source_id }) => source_id === 'dc_0000000002')).toBeLessThan(1_000);
  expect(new Set(jobs.map(({ run_id }) => run_id)).size).toBe(3_001);
});

test('an event whose part of the queue is unavailable delays none of others, and is released afterwards', async () => {
  const [stuck, other] = [await t.source(), await t.source()];
  await t.store.collection(delayed).insertMany([rowOf(stuck, OWNER, 0), rowOf(other, 'u_0000000002', 1)]);
  const { publishMany } = t.queue;
  let isAvailable = false;
  t.queue.publishMany = async (name, jobs) => {
    // As a partition without a leader, which does not answer.
    if (!isAvailable && jobs.some(({ key }) => key === stuck)) await new Promise(() => {});
    await publishMany(name, jobs);
  };
  t.queue.publish = (name, job) => t.queue.publishMany(name, [job]);
  t.start();
  const [released] = (await t.runs(1)) as DueJob[];
  expect([released!.source_id, released!.redelivered]).toEqual([other, undefined]);
  await until(rows, ([row, ...more]) => more.length === 0 && row?.emitter_id === stuck);
  isAvailable = true;
  t.clock.advance(LEASE_MS);
  expect(await t.runs(1)).toMatchObject([{ source_id: stuck, redelivered: true }]);
  await until(rows, (left) => left.length === 0);
});

test('a backlog for an unavailable part of the queue does not hold up the events of other owners', async () => {
  const stuck = Array.from({ length: 3_000 }, (_, n) => rowOf('dc_0000000001', OWNER, n));
  const later = { ...rowOf('dc_0000000002', 'u_0000000002', 0), due_at: t.clock.now() - 1 };
  await t.store.collection(delayed).insertMany([...stuck, later]);
  const released = Promise.withResolvers<number>();
  let refused = 0;
  t.queue.publish = async (_name, { key }) => {
    if (key === later.emitter_id) return released.resolve(refused);
    refused += 1;
    throw new Unavailable('no leader');
  };
  const { sleep } = t.clock;
  // The pauses between attempts.
  t.clock.sleep = (ms, signal) => sleep.call(t.clock, ms === 1_000 ? 1 : ms, signal);
  t.start();
  expect(await released.promise).toBeLessThan(1_000);
});

test('while the whole queue is unavailable, one batch of a backlog is leased a second', async () => {
  const rowsOf = Array.from({ length: 1_000 }, (_, n) => rowOf('dc_0000000001', OWNER, n));
  await t.store.collection(delayed).insertMany(rowsOf);
  const pauses = Promise.withResolvers<number>();
  const { sleep } = t.clock;
  t.clock.sleep = (ms, signal) => {
    if (ms === 1_000) pauses.resolve(t.store.collection(delayed).count({ due_at: { gt: t.clock.now() } }));
    return sleep.call(t.clock, ms, signal);
  };
  t.queue.publishMany = async () => {
    throw new Unavailable('blocked');
  };
  t.queue.publish = (name, job) => t.queue.publishMany(name, [job]);
  t.start();
  // And the turn of its owner.
  expect(await pauses.promise).toBe(200 + 20);
});
