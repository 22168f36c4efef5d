import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { type EventRow, events } from '../collections/events.ts';
import { eventOf } from '../conformance-runs.ts';
import { ConflictError, type Store } from '../port.ts';
import { createCollection } from './collection.ts';
import { createHiddenBatches, type HiddenBatches } from './hidden-batches.ts';
import { tableOf } from './schema.ts';
import { openEmbedded } from './store.fixture.ts';

const state = { id: 'dc_large', db: {}, epoch: 1, dedupe: {}, last_ids: {} };

/** Events with ascending ids. */
const from = (first: number, count = 2000) => Array.from({ length: count }, (_, n) => eventOf(first + n));

const commit = (store: Store, ifVersion: number, rows: EventRow[], id = state.id) =>
  store.commitRun({ state: { ...state, id }, ifVersion, events: rows, logs: [] });

/** Hidden batches of events, and the events that are visible. */
async function openBatches() {
  const subject = await openEmbedded();
  const rows = createCollection(subject.db, events, () => batches.condition());
  const batches: HiddenBatches<EventRow> = createHiddenBatches(subject.db, tableOf(events), rows.insertNow);
  return { ...subject, rows, batches };
}

test('no operation sees a hidden row', async () => {
  const { db, rows, batches, close } = await openBatches();
  const many = from(10);
  const [first] = many;
  const { partition } = first!;
  await rows.insert(eventOf(1));
  const batch = await batches.insert(many);
  await rows.insert(eventOf(5000));

  expect(await rows.get(first!.id)).toBeUndefined();
  expect(await rows.getVersioned(first!.id)).toBeUndefined();
  expect(await rows.find({ id: { gt: eventOf(1).id } })).toEqual(eventOf(5000));
  expect(await rows.list({ where: { partition }, order: 'asc' })).toEqual([eventOf(1), eventOf(5000)]);
  expect(await rows.count()).toBe(2);
  expect(await rows.patch(first!.id, { name: 'changed' })).toBe(false);
  expect(await rows.claim({ where: { partition, sort_key: { gte: first!.sort_key } } }, {})).toHaveLength(1);
  expect(await rows.removeWhere({ partition })).toBe(2);

  await db.write(batch.showNow);
  await batch.end(true);
  expect(await rows.list({ where: { partition }, order: 'asc' })).toEqual(many);
  await close();
});

test('after a crash hidden rows are removed, and all others stay', async () => {
  const { db, rows, batches, afterCrash, close } = await openBatches();
  await rows.insert(eventOf(1));
  const shown = await batches.insert(from(1000, 300));
  await batches.insert(from(2000, 300));
  await rows.insert(eventOf(2));
  await db.write(shown.showNow);
  const after = (await afterCrash()).collection(events);
  expect(await after.list({ order: 'asc' })).toEqual([eventOf(1), eventOf(2), ...from(1000, 300)]);
  await close();
});

test('rows that cannot be removed stay hidden, and are removed before the next batch', async () => {
  const { db, rows, batches, close } = await openBatches();
  const batch = await batches.insert(from(0));
  db.exec('PRAGMA query_only = ON');
  await batch.end(false);
  expect(await rows.count()).toBe(0);
  await expect(batches.insert(from(0))).rejects.toBeInstanceOf(Unavailable);
  expect(await rows.count()).toBe(0);
  db.exec('PRAGMA query_only = OFF');
  const next = await batches.insert(from(0));
  await db.write(next.showNow);
  await next.end(true);
  expect(await rows.count()).toBe(2000);
  await close();
});

test('other writes do not wait for a commit of thousands of events', async () => {
  const { store, close } = await openEmbedded();
  const order: string[] = [];
  const large = commit(store, 0, from(0, 5000)).then(() => order.push('large'));
  const small = commit(store, 0, [], 'dc_small').then(() => order.push('small'));
  await Promise.all([large, small]);
  expect(order).toEqual(['small', 'large']);
  expect(await store.collection(events).count({})).toBe(5000);
  await close();
});

test('a commit of thousands of events is atomic and keeps its order among those of its state', async () => {
  const { store, close } = await openEmbedded();
  const rows = store.collection(events);
  let done = false;
  const all = (async () => [
    await commit(store, 0, from(0)),
    await commit(store, 1, [eventOf(5000)]),
    await commit(store, 1, from(9000)),
  ])().finally(() => {
    done = true;
  });
  const seen = new Set<number>();
  while (!done) {
    seen.add(await rows.count({}));
    await new Promise(setImmediate);
  }
  expect(await all).toEqual([true, true, false]);
  expect([...seen].filter((count) => ![0, 2000, 2001].includes(count))).toEqual([]);
  expect(await rows.count({})).toBe(2001);
  await expect(commit(store, 2, [...from(20_000), eventOf(5000)])).rejects.toThrow('exists');
  expect(await rows.count({})).toBe(2001);
  expect(await commit(store, 2, from(20_000))).toBe(true);
  expect(await rows.count({})).toBe(4001);
  await close();
});

test('a commit that fails at its first event removes no event of another one', async () => {
  const { store, close } = await openEmbedded();
  const rows = store.collection(events);
  await commit(store, 0, [eventOf(1)], 'dc_small');
  const broken = commit(store, 0, [eventOf(1), ...from(5000)], 'dc_broken');
  const large = commit(store, 0, from(10));
  await expect(broken).rejects.toBeInstanceOf(ConflictError);
  expect(await large).toBe(true);
  expect(await rows.count()).toBe(2001);
  await close();
});
