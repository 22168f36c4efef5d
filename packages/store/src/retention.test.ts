import { expect, test } from '@jest/globals';
import { newId } from '@wellspring/core/ids';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { measureReads } from '@wellspring/testing/measure-reads';
import { deliveryRow, eventRow, logRow } from '@wellspring/testing/rows';
import { type EventRow, events, logs } from './collections/events.ts';
import { idempotencyKeys } from './collections/idempotency.ts';
import { outbox } from './collections/outbox.ts';
import { usage } from './collections/users.ts';
import { deliveries } from './collections/webhooks.ts';
import { openEmbedded } from './embedded/store.fixture.ts';
import type { Store } from './port.ts';
import { prune } from './retention.ts';

const DAY = 86_400_000;
const NOW = 1_700_000_000_000;

const subject = forEachTest(openEmbedded);

const key = (ms: number, n: number) => `${String(ms).padStart(15, '0')}-${String(n).padStart(9, '0')}`;

const event = (emitter: string, stream: EventRow['stream'], n: number, at: number) =>
  eventRow(emitter, key(at, n), { stream, indexed_at_ms: at });

const log = (emitter: string, n: number, at: number, count: number) =>
  logRow(emitter, key(at, n), { run_id: `run_${n}`, indexed_at_ms: at, count });

const range = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));
const run = (retainEvents: number) =>
  prune(subject.store, { now: NOW, retainEvents, retainDays: 7, retainDeliveryDays: 12 });

test('keeps the newest events of each stream of each emitter', async () => {
  const rows = subject.store.collection(events);
  await rows.insertMany([
    ...range(700, (n) => event('dc_a', 'events', n, NOW - 1000)),
    ...range(30, (n) => event('dc_a', '$errors', n, NOW - 1000)),
    ...range(130, (n) => event('dc_b', 'events', n, NOW - 1000)),
  ]);
  expect((await run(120)).events).toBe(580 + 10);
  expect(await rows.count({ partition: 'dc_a/$errors' })).toBe(30);
  expect(await rows.count({ partition: 'dc_b/events' })).toBe(120);
  const kept = await rows.list({ where: { partition: 'dc_a/events' }, order: 'asc' });
  expect(kept.map(({ sort_key }) => sort_key)).toEqual(range(120, (n) => key(NOW - 1000, 580 + n)));
  expect((await run(120)).events).toBe(0);
});

test.each([
  ['events', events, (n: number) => event('dc_a', 'events', n, NOW - 1000)],
  ['logs', logs, (n: number) => log('dc_a', n, NOW - 1000, 2)],
])('two processes that prune %s at the same time keep the newest', async (_, definition, row) => {
  const rows = subject.store.collection(definition as typeof events);
  await rows.insertMany(range(300, (n) => row(n) as EventRow));
  const { count } = rows;
  rows.count = async (...given) => {
    const counted = await count(...given);
    if (counted > 200) {
      rows.count = count;
      await run(100);
    }
    return counted;
  };
  await run(100);
  expect(rows.count).toBe(count);
  const kept = await rows.list({ order: 'asc' });
  expect(kept.map(({ sort_key }) => sort_key)).toEqual(range(100, (n) => key(NOW - 1000, 200 + n)));
});

test('keeps delayed events, however many, until they are due', async () => {
  const rows = subject.store.collection(events);
  await rows.insertMany(range(300, (n) => event('dc_a', '$in', n, NOW + DAY)));
  expect((await run(100)).events).toBe(0);
  expect(await rows.count({ partition: 'dc_a/$in' })).toBe(300);
});

test('removes old events, however few', async () => {
  const rows = subject.store.collection(events);
  await rows.insertMany([
    ...range(450, (n) => event('dc_a', 'events', n, NOW - 7 * DAY - 1)),
    event('dc_a', 'events', 0, NOW - 7 * DAY),
  ]);
  expect((await run(10_000)).events).toBe(450);
  expect(await rows.count()).toBe(1);
});

test('keeps the newest hundred log records of an emitter, however old', async () => {
  const rows = subject.store.collection(logs);
  await rows.insertMany([
    ...range(50, (n) => log('dc_old', n, NOW - 30 * DAY, 3)),
    ...range(20, (n) => log('dc_quiet', n, NOW - 30 * DAY, 3)),
    log('dc_verbose', 0, NOW - 30 * DAY, 10),
    log('dc_verbose', 1, NOW - 20 * DAY, 500),
    ...range(10, (n) => log('dc_mixed', n, NOW - 30 * DAY, 50)),
    ...range(5, (n) => log('dc_mixed', n, NOW - DAY, 50)),
  ]);
  const { logs: removed } = await run(10_000);
  const left = async (emitter_id: string) =>
    (await rows.list({ where: { emitter_id }, order: 'asc' })).map(({ run_id }) => run_id);
  expect(await left('dc_old')).toEqual(range(34, (n) => `run_${n + 16}`));
  expect(await rows.count({ emitter_id: 'dc_quiet' })).toBe(20);
  expect(await left('dc_verbose')).toEqual(['run_1']);
  expect(await left('dc_mixed')).toEqual(range(5, (n) => `run_${n}`));
  expect(removed).toBe(16 + 1 + 10);
});

test('reads no texts: the rows of one emitter may be large', async () => {
  const rows = subject.store.collection(logs);
  const records = JSON.stringify('x'.repeat(100_000));
  await rows.insertMany(range(30, (n) => ({ ...log('dc_a', n, NOW - 30 * DAY, 5), records })));
  const reads = measureReads(subject.store);
  const limits = { now: NOW, retainEvents: 20, retainDays: 7, retainDeliveryDays: 30 };
  expect((await prune(reads.store, limits)).logs).toBe(10);
  expect(reads.bytes()).toBeLessThan(records.length);
});

test('keeps the newest runs with logs, with at least a hundred records', async () => {
  const rows = subject.store.collection(logs);
  await rows.insertMany([
    ...range(300, (n) => log('dc_a', n, NOW - 1000, 2)),
    ...range(90, (n) => log('dc_b', n, NOW - 1000, 1)),
  ]);
  expect((await run(80)).logs).toBe(220);
  expect(await rows.count({ emitter_id: 'dc_a' })).toBe(80);
  expect(await rows.count({ emitter_id: 'dc_b' })).toBe(90);
  expect((await run(20)).logs).toBe(30);
  expect(await rows.count({ emitter_id: 'dc_a' })).toBe(50);
});

test('removes marks of jobs beyond the limit, also of an emitter that has logs', async () => {
  const rows = subject.store.collection(logs);
  const emitters = ['dc_a', 'dc_a/jobs', 'dc_b/jobs'];
  for (const emitter of emitters) await rows.insertMany(range(300, (n) => log(emitter, n, NOW - 1000, 2)));
  expect((await run(80)).logs).toBe(660);
  for (const emitter_id of emitters) expect(await rows.count({ emitter_id })).toBe(80);
});

test('deliveries, idempotency keys and usage have separate limits; the outbox has none', async () => {
  const { store } = subject;
  await store
    .collection(deliveries)
    .insertMany([
      deliveryRow({ id: newId('dlv', NOW - 13 * DAY) }),
      deliveryRow({ id: newId('dlv', NOW - 14 * DAY), due_at: NOW }),
      deliveryRow({ id: newId('dlv', NOW - 11 * DAY) }),
    ]);
  const call = { request_hash: '', response: null, process: 'p' };
  await store.collection(idempotencyKeys).insertMany([
    { id: 'old', created_at_ms: NOW - DAY - 1, ...call },
    { id: 'new', created_at_ms: NOW - DAY, ...call },
  ]);
  const use = { invocations: 1, compute_ms: 1 };
  await store.collection(usage).insertMany([
    { id: 'u_1/2023-08-15', day: '2023-08-15', ...use },
    { id: 'u_1/2023-08-16', day: '2023-08-16', ...use },
  ]);
  await store.collection(outbox).insert({ id: 'run_1', emitter_id: 'dc_1', created_at_ms: 0, message: '{}' });

  expect(await run(100)).toEqual({
    events: 0,
    logs: 0,
    deliveries: 1,
    idempotency_keys: 1,
    running_runs: 0,
    usage: 1,
    components: 0,
    bundles: 0,
  });
  // One that was sent again is due.
  expect(await store.collection(deliveries).count()).toBe(2);
  expect(await store.collection(idempotencyKeys).get('new')).toBeDefined();
  expect(await store.collection(usage).get('u_1/2023-08-16')).toBeDefined();
  expect(await store.collection(outbox).count()).toBe(1);
});

test('an aborted signal stops it between two batches', async () => {
  const rows = subject.store.collection(events);
  await rows.insertMany(range(300, (n) => event('dc_a', 'events', n, 0)));
  const stopped = await prune(subject.store, {
    now: NOW,
    retainEvents: 1,
    retainDays: 1,
    retainDeliveryDays: 30,
    signal: AbortSignal.abort(),
  });
  expect(stopped.events).toBe(0);
  expect(await rows.count()).toBe(300);
});

test('a failed step does not prevent the others', async () => {
  const { store } = subject;
  const call = { request_hash: '', response: null, process: 'p' };
  await store.collection(idempotencyKeys).insert({ id: 'old', created_at_ms: NOW - 2 * DAY, ...call });
  const broken: Store = {
    ...store,
    collection(definition) {
      if ([events.name, deliveries.name].includes(definition.name)) throw new Error(`No ${definition.name}`);
      return store.collection(definition);
    },
  };
  const pruned = prune(broken, { now: NOW, retainEvents: 1, retainDays: 7, retainDeliveryDays: 30 });
  await expect(pruned).rejects.toThrow(/No events.*No deliveries/);
  expect(await store.collection(idempotencyKeys).count()).toBe(0);
});

test('a partition that fails does not prevent the others', async () => {
  const { store } = subject;
  const rows = store.collection(events);
  await rows.insertMany(
    ['dc_a', 'dc_b', 'dc_c'].map((emitter) => event(emitter, 'events', 1, NOW - 8 * DAY)),
  );
  const { removeWhere } = rows;
  Object.assign(rows, {
    removeWhere: (...args: Parameters<typeof removeWhere>) =>
      JSON.stringify(args[0]).includes('dc_b') ? Promise.reject(new Error('No dc_b')) : removeWhere(...args),
  });
  await expect(run(100)).rejects.toThrow('No dc_b');
  expect((await rows.list({ order: 'asc' })).map(({ emitter_id }) => emitter_id)).toEqual(['dc_b']);
});
