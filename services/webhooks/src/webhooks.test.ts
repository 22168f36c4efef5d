import { beforeEach, describe, expect, test } from '@jest/globals';
import { eventSortKey } from '@wellspring/core/event-id';
import { newId } from '@wellspring/core/ids';
import { DELIVERIES_DUE } from '@wellspring/pubsub/port';
import type { Service } from '@wellspring/runtime/service';
import { events, logs } from '@wellspring/store/collections/events';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { orgs, users } from '@wellspring/store/collections/users';
import { type DeliveryRow, deliveries, webhooks } from '@wellspring/store/collections/webhooks';
import { eventually } from '@wellspring/testing/eventually';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { measureReads } from '@wellspring/testing/measure-reads';
import { deliveryRow, eventRow, logRow, orgRow, userRow } from '@wellspring/testing/rows';
import { ALICE, BOB, callApi, ORG, seal, useHarness, user } from '@wellspring/testing/service-harness';
import { createWebhooksService } from './service.ts';

/** Sort key of the event of `deliveryRow`. */
const KEY = eventSortKey({ ms: 1_700_000_000_000, n: 0 });
const HOOK = 'https://example.com/hook';

const t = useHarness(createFakeClock);
let service: Service;
/** Called when the service has read a webhook. */
let onRead: (id: string) => Promise<unknown>;

beforeEach(async () => {
  for (const { user_id } of [ALICE, BOB])
    await t.store.collection(users).insert(userRow({ id: user_id, username: user_id }));
  await t.store.collection(orgs).insert(orgRow(ORG));
  onRead = async () => {};
  const { collection } = t.store;
  const watched: typeof collection = (definition) => {
    const rows = collection(definition);
    if (definition.name !== webhooks.name) return rows;
    return { ...rows, get: async (id) => onRead(id).then(() => rows.get(id)) };
  };
  service = createWebhooksService({ ...t, store: { ...t.store, collection: watched } });
});

const api = (method: string, path: string, body?: object, as = ALICE) =>
  callApi(service, method, path, { body, as });

const make = async (fields: object = {}, as = ALICE) =>
  (await api('POST', '/webhooks', { url: HOOK, ...fields }, as)).json.data;

async function delivery(webhookId: string, fields: Partial<DeliveryRow> = {}): Promise<DeliveryRow> {
  const id = newId('dlv');
  const row = deliveryRow({
    id,
    webhook_id: webhookId,
    status: 'failed',
    attempts: 10,
    failed_at_ms: t.clock.now(),
    ...fields,
  });
  await t.store.collection(deliveries).insert(row);
  return row;
}

describe('a webhook', () => {
  test('shows its secret only on creation and rotation', async () => {
    const made = await make({ name: 'Größe ✓' });
    expect(made).toMatchObject({ url: HOOK, name: 'Größe ✓', description: null, active: true });
    expect(made.secret).toMatch(/^whsec_/);
    const rotated = (await api('POST', `/webhooks/${made.id}/rotate_secret`)).json.data;
    expect(rotated.secret).toMatch(/^whsec_/);
    expect(rotated.secret).not.toBe(made.secret);
    const row = (await t.store.collection(webhooks).get(made.id))!;
    expect(seal.open(row.secret, made.id)).toBe(rotated.secret);
    expect(seal.open(row.old_secret!, made.id)).toBe(made.secret);
    expect(row.old_secret_until).toBe(t.clock.now() + 24 * 3_600_000);
    expect(JSON.stringify(row)).not.toContain('whsec_');
    for (const [method, path, body] of [
      ['GET', `/webhooks/${made.id}`],
      ['GET', '/users/me/webhooks'],
      ['PUT', `/webhooks/${made.id}`, { name: 'x' }],
    ] as const) {
      const { status, text } = await api(method, path, body);
      expect([status, text.includes('secret'), text.includes('whsec_')]).toEqual([200, false, false]);
    }
  });

  test('an update keeps absent fields, accepts null, and resets failures on reactivation', async () => {
    const { id } = await make({ name: 'one', description: 'two' });
    const put = async (body: object) => (await api('PUT', `/webhooks/${id}`, body)).json;
    expect((await put({ description: null })).data).toMatchObject({
      name: 'one',
      description: null,
      url: HOOK,
    });
    await t.store.collection(webhooks).patch(id, { failing_since: 1, active: false });
    await put({ name: 'three' });
    expect(await t.store.collection(webhooks).get(id)).toMatchObject({ failing_since: 1, active: false });
    await put({ active: true });
    expect(await t.store.collection(webhooks).get(id)).toMatchObject({ failing_since: null, active: true });
    for (const url of ['ftp://example.com', 'example.com', 7, null]) {
      expect(await put({ url })).toMatchObject({ code: expect.any(String), param: 'url' });
    }
  });

  test('has a name of at most 1,000 characters and a description of 4,096', async () => {
    const longest = { name: 'n'.repeat(1000), description: 'ü'.repeat(4096) };
    const { id } = await make(longest);
    for (const [param, text] of Object.entries(longest)) {
      const body = { url: HOOK, [param]: `${text}x` };
      for (const [method, path] of [
        ['POST', '/webhooks'],
        ['PUT', `/webhooks/${id}`],
      ] as const) {
        expect(await api(method, path, body)).toMatchObject({ status: 400, json: { param } });
      }
    }
    expect((await api('GET', `/webhooks/${id}`)).json.data).toMatchObject(longest);
  });

  test('is deleted with its subscriptions and deliveries', async () => {
    const [{ id }, other] = [await make(), await make()];
    for (const [n, listener_id] of [id, other.id].entries()) {
      await t.store.collection(subscriptions).insert({
        id: `sub_000000000${n}`,
        owner_id: 'u_0000000001',
        user_id: 'u_0000000001',
        emitter_id: 'dc_0000000000',
        listener_id,
        event_name: '',
        created_at: 0,
      });
      await delivery(listener_id);
    }
    expect((await api('DELETE', `/webhooks/${id}`)).status).toBe(204);
    expect((await api('DELETE', `/webhooks/${id}`)).status).toBe(404);
    const left = await Promise.all([
      t.store.collection(subscriptions).list(),
      t.store.collection(deliveries).list(),
    ]);
    expect(left.map((rows) => rows.length)).toEqual([1, 1]);
  });

  test('that is written when its owner is being deleted does not stay', async () => {
    await t.store.collection(users).patch(ALICE.user_id, { deleting: true });
    expect((await api('POST', '/webhooks', { url: HOOK })).status).toBe(404);
    expect(await t.store.collection(webhooks).count()).toBe(0);
  });

  test('of another tenant returns 404; one of an organization is open to its members', async () => {
    const own = await make();
    const ofOrg = await make({ org_id: ORG });
    const failed = await delivery(own.id);
    const calls = (id: string) =>
      [
        ['GET', `/webhooks/${id}`],
        ['PUT', `/webhooks/${id}`, { name: 'x' }],
        ['DELETE', `/webhooks/${id}`],
        ['POST', `/webhooks/${id}/rotate_secret`],
        ['POST', `/webhooks/${id}/test`],
        ['GET', `/webhooks/${id}/deliveries`],
        ['POST', `/webhooks/${id}/recover`, { since: '2020-01-01' }],
      ] as const;
    for (const id of [own.id, ofOrg.id, 'wh_0000000000']) {
      for (const [method, path, body] of calls(id)) {
        expect([path, (await api(method, path, body, BOB)).status]).toEqual([path, 404]);
      }
    }
    expect((await api('POST', `/deliveries/${failed.id}/resend`, undefined, BOB)).status).toBe(404);
    expect((await api('GET', `/orgs/${ORG}/webhooks`, undefined, BOB)).status).toBe(404);
    expect((await api('GET', `/orgs/${ALICE.user_id}/webhooks`)).status).toBe(404);
    expect((await api('POST', '/webhooks', { url: HOOK, org_id: ORG }, BOB)).status).toBe(403);
    const ids = async (path: string) =>
      (await api('GET', path)).json.data.map(({ id }: { id: string }) => id);
    expect(await ids(`/orgs/${ORG}/webhooks`)).toEqual([ofOrg.id]);
    expect(await ids('/users/me/webhooks')).toEqual([own.id]);
    expect((await api('GET', `/webhooks/${ofOrg.id}`, undefined, user('u_0000000003', ORG))).status).toBe(
      200,
    );
  });
});

describe('manual deliveries', () => {
  const get = (id: string) => t.store.collection(deliveries).get(id);
  const dueSignals = () => {
    let count = 0;
    t.pubsub.subscribe(DELIVERIES_DUE, () => count++);
    return () => count;
  };

  test('a test delivery is due at once and names no event', async () => {
    const signals = dueSignals();
    const { id } = await make();
    const { status, json } = await api('POST', `/webhooks/${id}/test`);
    expect([status, json.data.event_id, json.data.status]).toEqual([202, null, 'pending']);
    expect(await get(json.data.id)).toMatchObject({
      payload: '{"test":true}',
      due_at: t.clock.now(),
      emitter_id: null,
    });
    await eventually(() => signals() === 1);
  });

  test('a resend of what was delivered continues the count, with the payload of the event', async () => {
    const { id } = await make();
    await t.store.collection(events).insert(eventRow('dc_0000000000', KEY, { payload: '"from the event"' }));
    const done = await delivery(id, { status: 'delivered', attempts: 3, payload: '' });
    const { status, json } = await api('POST', `/deliveries/${done.id}/resend`);
    expect([status, json.data]).toMatchObject([202, { id: done.id, status: 'pending', attempts: 3 }]);
    expect(await get(done.id)).toMatchObject({
      due_at: t.clock.now(),
      attempts: 3,
      payload: '"from the event"',
    });
  });

  test('what was delivered is resent only while its event exists: 410', async () => {
    const { id } = await make();
    const logged = { event_name: '$logs', event_id: '1700000000000-2' };
    await t.store.collection(logs).insert(logRow('dc_0000000000', KEY, { count: 2, records: '[{},{}]' }));
    const resend = async (fields: Partial<DeliveryRow>) => {
      const row = await delivery(id, { ...(fields.status === 'delivered' && { payload: '' }), ...fields });
      const { status, json } = await api('POST', `/deliveries/${row.id}/resend`);
      return [status, json.code];
    };
    expect(await resend({ status: 'delivered' })).toEqual([410, 'event_gone']);
    expect(await resend({ status: 'delivered', ...logged })).toEqual([410, 'event_gone']);
    expect(await resend({ status: 'delivered', ...logged, event_id: '1700000000000-1' })).toEqual([
      202,
      undefined,
    ]);
    expect(await resend({ status: 'failed' })).toEqual([202, undefined]);
    expect(await resend({ status: 'delivered', emitter_id: null, event_id: null })).toEqual([202, undefined]);
  });

  test('recovery reads no payloads', async () => {
    const { id } = await make();
    for (let n = 0; n < 20; n++) await delivery(id, { payload: 'x'.repeat(100_000) });
    const reads = measureReads(t.store);
    const reading = createWebhooksService({ ...t, store: reads.store });
    await callApi(reading, 'POST', `/webhooks/${id}/recover?since=0`);
    expect(reads.bytes()).toBeLessThan(50_000);
    expect(await t.store.collection(deliveries).count({ failed_at_ms: null })).toBe(20);
  });

  test('recovery resends every delivery failed since then once, with a new count', async () => {
    const { id } = await make();
    const other = await make();
    const old = await delivery(id, { failed_at_ms: t.clock.now() - 60_000 });
    await delivery(other.id);
    await delivery(id, { status: 'delivered', failed_at_ms: null });
    await Promise.all(Array.from({ length: 1203 }, () => delivery(id)));
    const since = Math.floor(t.clock.now() / 1000) - 30;
    const recover = () => api('POST', `/webhooks/${id}/recover`, { since });
    expect(await recover()).toMatchObject({ status: 202, json: { data: { count: 1203 } } });
    expect(await recover()).toMatchObject({ status: 202, json: { data: { count: 0 } } });
    const due = await t.store.collection(deliveries).list({ where: { due_at: { gt: 0 } } });
    expect(due).toHaveLength(1203);
    expect(due.every((row) => row.status === 'pending' && row.attempts === 0)).toBe(true);
    expect(await get(old.id)).toEqual(old);
    for (const wrong of ['some day', '', true, undefined]) {
      expect(await api('POST', `/webhooks/${id}/recover`, { since: wrong })).toMatchObject({
        status: 400,
        json: { param: 'since' },
      });
    }
  });

  test('an inactive webhook is sent nothing', async () => {
    const { id } = await make();
    const failed = await delivery(id);
    await api('PUT', `/webhooks/${id}`, { active: false });
    for (const path of [
      `/webhooks/${id}/test`,
      `/deliveries/${failed.id}/resend`,
      `/webhooks/${id}/recover?since=0`,
    ]) {
      expect(await api('POST', path)).toMatchObject({ status: 409, json: { code: 'webhook_inactive' } });
    }
    expect(await get(failed.id)).toEqual(failed);
  });

  test('are listed newest first, by pages', async () => {
    const { id } = await make();
    const ids = [];
    for (let n = 0; n < 5; n++) ids.unshift((await delivery(id)).id);
    await delivery((await make()).id);
    const first = (await api('GET', `/webhooks/${id}/deliveries?limit=3`)).json;
    expect(first.page_info).toMatchObject({ total_count: 5, count: 3 });
    const next = (await api('GET', `/webhooks/${id}/deliveries?after=${first.page_info.end_cursor}`)).json;
    expect([...first.data, ...next.data].map((one) => one.id)).toEqual(ids);
    expect(first.data[0]).toEqual({
      id: ids[0],
      webhook_id: id,
      emitter_id: 'dc_0000000000',
      event_id: '1700000000000-0',
      event_name: '',
      next_attempt_at: null,
      status: 'failed',
      attempts: 10,
      created_at: 0,
    });
  });
});
