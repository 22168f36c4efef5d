import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { currentRevision } from '@wellspring/store/collections/revisions';
import { sources } from '@wellspring/store/collections/sources';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { webhooks } from '@wellspring/store/collections/webhooks';
import { createFakeClock, type FakeClock } from '@wellspring/testing/fake-clock';
import { OWNER, sourceRow, subscriptionRow, webhookRow } from '@wellspring/testing/rows';
import { openPorts, type Ports } from '@wellspring/testing/service-harness';
import { createListeners, type FindListeners } from './listeners.ts';

const LISTENER = 'dc_0000000002';
const EMITTER = { id: 'dc_0000000001', owner_id: OWNER };

let clock: FakeClock;
let ports: Ports;
let listeners: FindListeners;
beforeEach(async () => {
  clock = createFakeClock();
  ports = openPorts({ clock });
  listeners = createListeners({ store: ports.store, clock });
  await ports.store.collection(sources).insert(sourceRow({ id: LISTENER }));
});
afterEach(() => ports.close());

const revision = () => currentRevision(ports.store, 'listeners');
const found = async (at?: number) => (await listeners(EMITTER, [''], at)).get('')!.runs.map(({ id }) => id);
const subscribe = () =>
  ports.store
    .collection(subscriptions)
    .insert(subscriptionRow({ emitter_id: EMITTER.id, listener_id: LISTENER }));

test('a message that knows of a new subscription finds it', async () => {
  const before = await revision();
  expect(await found(before)).toEqual([]);
  await subscribe();
  expect(await found(await revision())).toEqual([LISTENER]);
});

test('a message without a revision finds the current listeners', async () => {
  expect(await found()).toEqual([]);
  await subscribe();
  expect(await found()).toEqual([LISTENER]);
});

test('a message of an earlier time uses listeners that were read later', async () => {
  const before = await revision();
  await subscribe();
  expect(await found(await revision())).toEqual([LISTENER]);
  expect(await found(before)).toEqual([LISTENER]);
});

test('listeners are read anew after ten seconds', async () => {
  const before = await revision();
  expect(await found(before)).toEqual([]);
  await subscribe();
  expect(await found(before)).toEqual([]);
  await clock.advance(10_000);
  expect(await found(before)).toEqual([LISTENER]);
});

test('the texts of a webhook for people are not kept in memory', async () => {
  const webhook = webhookRow({ name: 'shop', description: 'Orders of the shop' });
  await ports.store.collection(webhooks).insert(webhook);
  await ports.store
    .collection(subscriptions)
    .insert(subscriptionRow({ emitter_id: EMITTER.id, listener_id: webhook.id }));
  const { webhooks: kept } = (await listeners(EMITTER, [''])).get('')!;
  expect(kept).toEqual([{ ...webhook, name: null, description: null }]);
});
