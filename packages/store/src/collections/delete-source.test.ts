import { expect, test } from '@jest/globals';
import { openDatabase } from '@wellspring/sqlite/database';
import { createEmbeddedStore } from '../embedded/store.ts';
import type { CollectionDefinition, Row } from '../port.ts';
import { deleteSourceRows } from './delete-source.ts';
import { type EventStream, events, logs } from './events.ts';
import { outbox } from './outbox.ts';
import { deployments, endpoints, sources, timers } from './sources.ts';
import { states } from './states.ts';
import { autoSubscriptions, subscriptions } from './subscriptions.ts';

const ALL = [
  sources,
  deployments,
  endpoints,
  timers,
  events,
  logs,
  states,
  outbox,
  subscriptions,
  autoSubscriptions,
];

const open = () => {
  const db = openDatabase(':memory:');
  return { db, store: createEmbeddedStore(db) };
};
type Opened = ReturnType<typeof open>['store'];

/** A source with `count` events in each stream, and a row in every collection that knows sources. */
async function fill(store: Opened, id: string, count: number): Promise<void> {
  const insert = <T extends Row>(definition: CollectionDefinition<T>, ...rows: object[]) =>
    store.collection(definition).insertMany(rows as T[]);
  await insert(sources, {
    id,
    owner_id: 'u_0000000001',
    name_slug: id,
    status: 'live',
    active: true,
    transition: null,
  });
  await insert(deployments, { id: `d_${id}`, source_id: id });
  await insert(endpoints, { id: `e${id}`, source_id: id });
  await insert(timers, { id: `${id}/timer`, source_id: id, due_at: 1 });
  await insert(states, { id, db: {} });
  await insert(outbox, { id: `run_${id}`, emitter_id: id, message: '{}' });
  await insert(
    subscriptions,
    { id: `sub_${id}1`, owner_id: 'o', emitter_id: id, listener_id: 'wh_1', event_name: '' },
    { id: `sub_${id}2`, owner_id: 'o', emitter_id: 'dc_other', listener_id: id, event_name: '' },
  );
  await insert(autoSubscriptions, {
    id: `as_${id}`,
    owner_id: 'o',
    user_id: 'u',
    listener_id: id,
    event_name: '$errors',
  });
  const numbers = Array.from({ length: count }, (_, i) => String(i).padStart(8, '0'));
  for (const stream of ['events', '$errors', '$in'] satisfies EventStream[]) {
    const partition = `${id}/${stream}`;
    const channel = `${partition}/`;
    await insert(
      events,
      ...numbers.map((sort_key) => ({
        id: `${partition}/${sort_key}`,
        emitter_id: id,
        partition,
        channel,
        sort_key,
        payload: '1',
      })),
    );
  }
  await insert(
    logs,
    ...numbers.map((sort_key) => ({ id: `${id}/${sort_key}`, emitter_id: id, sort_key, records: '[]' })),
  );
}

const counts = async (store: Opened) =>
  Object.fromEntries(
    await Promise.all(
      ALL.map(
        async (each) =>
          [each.name, await store.collection(each as unknown as CollectionDefinition<Row>).count()] as const,
      ),
    ),
  );

test('removes all rows of the source and none of another', async () => {
  const { db, store } = open();
  await fill(store, 'dc_kept', 3);
  const kept = await counts(store);
  await fill(store, 'dc_gone', 1201);
  await deleteSourceRows(store, 'dc_gone');
  expect(await counts(store)).toEqual(kept);
  await deleteSourceRows(store, 'dc_gone');
  expect(await counts(store)).toEqual(kept);
  await db.close();
});

test('from the first write on the source has no owner, is inactive, and its slug is free', async () => {
  const { db, store } = open();
  await fill(store, 'dc_gone', 1201);
  const deleting = deleteSourceRows(store, 'dc_gone');
  let seen = await store.collection(sources).get('dc_gone');
  while (seen?.status === 'live') {
    await new Promise(setImmediate);
    seen = await store.collection(sources).get('dc_gone');
  }
  expect(seen).toMatchObject({ status: 'deleting', active: false, owner_id: 'deleted' });
  expect(await store.collection(events).count()).toBeGreaterThan(0);
  await deleting;
  expect(await store.collection(sources).count()).toBe(0);
  await db.close();
});
