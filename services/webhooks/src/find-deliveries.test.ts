import { beforeEach, expect, test } from '@jest/globals';
import { newId } from '@wellspring/core/ids';
import type { Service } from '@wellspring/runtime/service';
import { type Attempt, type DeliveryRow, deliveries, webhooks } from '@wellspring/store/collections/webhooks';
import { eventually } from '@wellspring/testing/eventually';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { numbers } from '@wellspring/testing/numbers';
import { deliveryRow, webhookRow } from '@wellspring/testing/rows';
import { BOB, callApi, useHarness } from '@wellspring/testing/service-harness';
import { findDeliveries } from './find-deliveries.ts';
import { createWebhooksService } from './service.ts';

const t = useHarness(createFakeClock);
let service: Service;
const HOOK = 'wh_0000000000';

beforeEach(async () => {
  service = createWebhooksService(t);
  await t.store.collection(webhooks).insert(webhookRow({ id: HOOK }));
});

/** Stores a delivery that was made at a time; returns its id. */
async function made(at: string, fields: Partial<DeliveryRow> = {}): Promise<string> {
  const ms = Date.parse(at);
  const row = deliveryRow({ id: newId('dlv', ms), ...fields });
  await t.store.collection(deliveries).insert(row);
  return row.id;
}
const list = async (query: string) => {
  const { status, json } = await callApi(service, 'GET', `/webhooks/${HOOK}/deliveries?${query}`);
  return status === 200 ? json.data.map(({ id }: { id: string }) => id) : [status, json.param];
};

test('a few deliveries are read with their payloads at a time', async () => {
  const id = await made('2030-01-01T00:00:00Z');
  const rows = t.store.collection(deliveries);
  const { get } = rows;
  const held = Promise.withResolvers<void>();
  let [reading, most] = [0, 0];
  rows.get = async (wanted) => {
    reading += 1;
    most = Math.max(most, reading);
    await held.promise;
    reading -= 1;
    return get(wanted);
  };
  service = createWebhooksService(t);
  const answers = Promise.all(numbers(20).map(() => callApi(service, 'GET', `/deliveries/${id}`)));
  // Half of the permits are for other owners.
  await eventually(() => reading >= 2);
  held.resolve();
  expect(new Set((await answers).map(({ status }) => status))).toEqual(new Set([200]));
  expect(most).toBe(2);
});

test('the number of deliveries of a webhook is counted up to a limit', async () => {
  await made('2030-01-01T00:00:00Z');
  const rows = t.store.collection(deliveries);
  const { count } = rows;
  const limits: unknown[] = [];
  rows.count = (where, atMost) => {
    limits.push(atMost);
    return count(where, atMost);
  };
  expect(await list('limit=1')).toHaveLength(1);
  expect(limits).toEqual([10_000]);
});

test('the deliveries of a webhook are found by state, event, emitter and time', async () => {
  const first = await made('2030-01-01T00:00:00Z', { status: 'failed', event_id: '5-0' });
  const second = await made('2030-01-02T00:00:00Z', { emitter_id: 'dc_other' });
  const third = await made('2030-01-03T00:00:00Z', { status: 'failed' });
  await made('2030-01-03T00:00:00Z', { webhook_id: 'wh_other', status: 'failed' });
  expect(await list('')).toEqual([third, second, first]);
  expect(await list('status=failed')).toEqual([third, first]);
  expect(await list('status=failed&event_id=5-0')).toEqual([first]);
  expect(await list('emitter_id=dc_other')).toEqual([second]);
  expect(await list('since=2030-01-02')).toEqual([third, second]);
  expect(await list('until=2030-01-02')).toEqual([first]);
  expect(await list(`since=${Date.parse('2030-01-01T12:00:00Z') / 1000}&until=2030-01-02T12:00`)).toEqual([
    second,
  ]);
  expect(await list('status=delivered')).toEqual([]);
  expect(await list('status=lost')).toEqual([400, 'status']);
  expect(await list('until=tomorrow')).toEqual([400, 'until']);
});

test('filtered lists have pages, in both directions', async () => {
  const ids = [];
  for (let n = 1; n < 8; n++) ids.unshift(await made(`2030-01-0${n}T00:00:00Z`, { status: 'failed' }));
  const read = async (query: string) =>
    (await callApi(service, 'GET', `/webhooks/${HOOK}/deliveries?status=failed&limit=3&${query}`)).json;
  const first = await read('');
  const next = await read(`after=${first.page_info.end_cursor}`);
  expect([first.data, next.data].flat().map(({ id }) => id)).toEqual(ids.slice(0, 6));
  expect(next.page_info.total_count).toBe(7);
  const back = await read(`before=${next.page_info.start_cursor}`);
  expect(back.data).toEqual(first.data);
});

test('a delivery shows its attempts, newest first; in lists only when asked', async () => {
  const log: Attempt[] = [
    {
      n: 1,
      at: 1_700_000_000_123,
      duration_ms: 2,
      status: null,
      error: 'connect ECONNREFUSED 127.0.0.1:4000',
    },
    {
      n: 2,
      at: 1_700_000_005_123,
      duration_ms: 9,
      status: 500,
      error: null,
      headers: { a: 'b' },
      body: 'oh',
    },
    { n: 3, at: 1_700_000_009_123, duration_ms: 9, status: 204, error: null, headers: {} },
  ];
  const id = await made('2030-01-01T00:00:00Z', {
    ...{
      log: JSON.stringify(log),
      attempts: 3,
      due_at: 1_700_000_300_500,
      event_name: 'side',
      payload: 'secret',
    },
  });
  const shown = (await callApi(service, 'GET', `/deliveries/${id}`)).json.data;
  expect(shown).toMatchObject({
    id,
    event_name: 'side',
    emitter_id: 'dc_0000000000',
    next_attempt_at: 1_700_000_301,
  });
  expect(shown.attempt_log).toEqual([
    {
      ...{ number: 3, at: 1_700_000_009, duration_ms: 9, status: 204, error: null },
      ...{ response_headers: {}, response_body: '' },
    },
    {
      ...{ number: 2, at: 1_700_000_005, duration_ms: 9, status: 500, error: null },
      ...{ response_headers: { a: 'b' }, response_body: 'oh' },
    },
    {
      ...{ number: 1, at: 1_700_000_000, duration_ms: 2, status: null },
      ...{ error: 'connect ECONNREFUSED 127.0.0.1:4000', response_headers: null, response_body: null },
    },
  ]);
  const of = async (query: string) =>
    (await callApi(service, 'GET', `/webhooks/${HOOK}/deliveries?${query}`)).json.data[0];
  expect(await of('expand=attempt_log')).toEqual(shown);
  expect(await of('')).toEqual({ ...shown, attempt_log: undefined });
});

test('a list reads neither payloads nor attempts of the deliveries', async () => {
  await made('2030-01-01T00:00:00Z', { status: 'failed', log: '[{"n":1}]', payload: 'large' });
  for (const filter of [{}, { status: 'failed' as const }]) {
    const { data } = await findDeliveries(t.store, HOOK, filter);
    expect(data).toMatchObject([{ status: 'failed', log: '', payload: '' }]);
  }
});

test('deliveries of others, and requests of workflows, are not found', async () => {
  const id = await made('2030-01-01T00:00:00Z');
  const send = await made('2030-01-01T00:00:00Z', { send: true });
  const statuses = await Promise.all([
    callApi(service, 'GET', `/deliveries/${id}`, { as: BOB }),
    callApi(service, 'GET', `/deliveries/${send}`),
    callApi(service, 'GET', '/deliveries/dlv_0000000000'),
  ]);
  expect(statuses.map(({ status }) => status)).toEqual([404, 404, 404]);
});
