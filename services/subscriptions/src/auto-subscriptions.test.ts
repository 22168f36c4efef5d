import { beforeEach, expect, test } from '@jest/globals';
import { LIMITS } from '@wellspring/contract/limits';
import type { Principal } from '@wellspring/contract/principal';
import { newId } from '@wellspring/core/ids';
import type { Service } from '@wellspring/runtime/service';
import { autoSubscribe } from '@wellspring/store/collections/auto-subscribe';
import { deleteWebhookRows } from '@wellspring/store/collections/delete-webhook';
import { autoSubscriptions, subscriptions } from '@wellspring/store/collections/subscriptions';
import { webhooks } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { numbers } from '@wellspring/testing/numbers';
import { OWNER, subscriptionRow, webhookRow } from '@wellspring/testing/rows';
import { ALICE, BOB, callApi, ORG, useHarness } from '@wellspring/testing/service-harness';
import { createSubscriptionsService } from './service.ts';

const t = useHarness(createFakeClock);
let service: Service;
let listener_id: string;
beforeEach(async () => {
  service = createSubscriptionsService(t);
  const row = webhookRow({ owner_id: OWNER });
  await t.store.collection(webhooks).insert(row);
  listener_id = row.id;
});

const api = (method: string, query: Record<string, string> = {}, as: Principal = ALICE, path = '') =>
  callApi(service, method, `/auto_subscriptions${path}?${new URLSearchParams(query)}`, { as });
const ids = async (as: Principal = ALICE) =>
  (await api('GET', {}, as)).json.data.map(({ id }: { id: string }) => id);

test('creating is idempotent per channel and listener, also concurrently', async () => {
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => api('POST', { event_name: '$errors', listener_id })),
  );
  const id = answers[0]!.json.data.id;
  for (const { status, json } of answers) {
    expect([status, json.data]).toEqual([
      200,
      { id, event_name: '$errors', listener_id, created_at: 1_700_000_000 },
    ]);
  }
  expect(id).toMatch(/^as_/);
  expect((await api('POST', { event_name: '$logs', listener_id })).json.data.id).not.toBe(id);
  expect(await ids()).toHaveLength(2);
});

test('creating is refused beyond the limit of its owner', async () => {
  const rows = numbers(LIMITS.autoSubscriptions).map((n) => ({
    ...{ id: newId('as'), owner_id: OWNER, user_id: OWNER, created_at: 0 },
    ...{ event_name: '$errors' as const, listener_id: `wh_${n}` },
  }));
  await t.store.collection(autoSubscriptions).insertMany(rows);
  const { status, json } = await api('POST', { event_name: '$errors', listener_id });
  expect([status, json.code]).toEqual([409, 'limit_reached']);
});

test.each(['', 'orders', '$in', '*'])('the channel %p is refused', async (event_name) => {
  const { status, json } = await api('POST', { event_name, listener_id });
  expect([status, json.param]).toEqual([400, 'event_name']);
});

test('other tenants see neither the listener nor the auto-subscription', async () => {
  const query = { event_name: '$errors', listener_id };
  expect((await api('POST', query, BOB)).status).toBe(404);
  const { id } = (await api('POST', query)).json.data;
  expect(await ids(BOB)).toEqual([]);
  expect((await api('DELETE', {}, BOB, `/${id}`)).status).toBe(404);
  expect((await api('DELETE', query, BOB)).status).toBe(404);
  expect(await ids()).toEqual([id]);
});

test('it is removed by id, or by channel and listener', async () => {
  const query = { event_name: '$errors', listener_id };
  const { id } = (await api('POST', query)).json.data;
  expect((await api('DELETE', {}, ALICE, `/${id}`)).status).toBe(204);
  await api('POST', query);
  expect((await api('DELETE', query)).status).toBe(204);
  expect((await api('DELETE', query)).status).toBe(404);
  expect(await ids()).toEqual([]);
});

test('a later source of the owner gets one subscription of each, also after a repetition', async () => {
  for (const event_name of ['$errors', '$logs']) await api('POST', { event_name, listener_id });
  await api('POST', { event_name: '$errors', listener_id, org_id: ORG });
  const source = { id: 'dc_0000000001', owner_id: OWNER };
  for (let attempt = 0; attempt < 2; attempt += 1) await autoSubscribe(t.store, source, 1_700_000_001);
  await autoSubscribe(t.store, { id: 'dc_0000000002', owner_id: BOB.user_id }, 1_700_000_001);
  const rows = await t.store.collection(subscriptions).list();
  expect(rows.map(({ emitter_id, event_name, user_id }) => [emitter_id, event_name, user_id])).toEqual([
    [source.id, '$errors', OWNER],
    [source.id, '$logs', OWNER],
  ]);
});

test('a later source gets no subscription to a webhook that is deleted meanwhile', async () => {
  await api('POST', { event_name: '$errors', listener_id });
  const store: Store = {
    ...t.store,
    collection: (definition) => {
      const found = t.store.collection(definition);
      const insert: typeof found.insert = async (row) => {
        await deleteWebhookRows(t.store, listener_id);
        await found.insert(row);
      };
      return { ...found, insert };
    },
  };
  await autoSubscribe(store, { id: 'dc_0000000001', owner_id: OWNER }, 1_700_000_001);
  expect(await t.store.collection(subscriptions).count()).toBe(0);
});

test('a later source is refused if its subscriptions exceed the limit of its owner', async () => {
  for (const event_name of ['$errors', '$logs']) await api('POST', { event_name, listener_id });
  const rows = numbers(LIMITS.subscriptions - 2).map((n) =>
    subscriptionRow({ emitter_id: 'dc_*', listener_id, event_name: `channel ${n}` }),
  );
  await t.store.collection(subscriptions).insertMany(rows);
  await autoSubscribe(t.store, { id: 'dc_0000000001', owner_id: OWNER }, 1_700_000_001);
  const second = autoSubscribe(t.store, { id: 'dc_0000000002', owner_id: OWNER }, 1_700_000_001);
  await expect(second).rejects.toMatchObject({ status: 409, code: 'limit_reached' });
  expect(await t.store.collection(subscriptions).count()).toBe(LIMITS.subscriptions);
});
