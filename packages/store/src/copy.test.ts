import { expect, test } from '@jest/globals';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { userRow } from '@wellspring/testing/rows';
import { bundles } from './collections/components.ts';
import { events } from './collections/events.ts';
import { states } from './collections/states.ts';
import { users } from './collections/users.ts';
import { copyStore } from './copy.ts';
import { openEmbedded } from './embedded/store.fixture.ts';
import type { Store } from './port.ts';

const [from, to] = [forEachTest(openEmbedded), forEachTest(openEmbedded)];

const user = (n: number) =>
  userRow({ id: `u_${String(n).padStart(6, '0')}`, username: `user ${n}`, updated_at: n });

test('copies every row of every collection with texts, idempotently', async () => {
  await from.store.collection(users).insertMany(Array.from({ length: 1234 }, (_, n) => user(n)));
  await from.store
    .collection(bundles)
    .insertMany([{ id: 'b', content: 'x'.repeat(100_000), unused_since: null }]);
  const state = { id: 'dc_1', epoch: 3, db: { a: '1' }, dedupe: { '': { last: 'x' } }, last_ids: {} };
  await from.store.collection(states).insert(state);
  const copied: Record<string, number> = {};
  const note = ({ collection, rows }: { collection: string; rows: number }) => {
    copied[collection] = rows;
  };
  await copyStore(from.store, to.store, note);
  expect(copied).toMatchObject({ users: 1234, bundles: 1, states: 1, events: 0 });
  for (const each of [users, bundles, states, events] as (typeof users)[]) {
    const all = { order: 'asc', limit: 5000 } as const;
    expect(await to.store.collection(each).list(all)).toEqual(await from.store.collection(each).list(all));
  }
  await to.store.collection(users).patch('u_000001', { username: 'renamed' });
  await copyStore(from.store, to.store);
  expect(await to.store.collection(users).get('u_000001')).toMatchObject({ username: 'renamed' });
});

test('holds at most 8 MB of texts, and one row more, at a time', async () => {
  const content = 'x'.repeat(3 * 1024 * 1024);
  const rows = Array.from({ length: 8 }, (_, n) => ({ id: `b${n}`, content, unused_since: null }));
  await from.store.collection(bundles).insertMany(rows);
  const inserted: number[] = [];
  const recording: Store = {
    ...to.store,
    collection(definition) {
      const collection = to.store.collection(definition);
      return {
        ...collection,
        insertMany(given) {
          if (definition.name === bundles.name) inserted.push(given.length);
          return collection.insertMany(given);
        },
      };
    },
  };
  await copyStore(from.store, recording);
  expect(inserted).toEqual([3, 3, 2]);
  expect(await to.store.collection(bundles).count()).toBe(8);
});
