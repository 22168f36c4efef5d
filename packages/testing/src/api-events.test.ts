import { expect, test } from '@jest/globals';
import {
  api,
  call,
  expectNow,
  hit,
  idOf,
  platform,
  RUN_ID,
  SECONDS,
  TEXT,
  usePlatform,
} from './api.fixture.ts';
import { eventually } from './eventually.ts';
import { API_KEY } from './platform.ts';

/** Events, runs, subscriptions, webhooks and deliveries: every endpoint and every field, as a client gets them. */

usePlatform();

const CODE = `export default {
  name: 'Echo',
  props: { http: '$.interface.http' },
  run({ body }) {
    console.log('got', body.n);
    this.$emit(body, { id: body.n, name: body.channel, summary: 'number ' + body.n, ts: body.ts });
    if (body.fail) throw new RangeError('too much');
  },
};`;
const newSource = async () => (await api('POST', '/sources', { component_code: CODE })).json.data;
const eventsOf = async (id: string, query = '') =>
  (await api('GET', `/sources/${id}/event_summaries${query}`)).json;
const EVENT_ID = expect.stringMatching(/^\d{13}-\d+$/);

test('an event has its fields, cut over 1 KB unless expand=event, in lists, by id and on the stream', async () => {
  const source = await newSource();
  await hit(source, { n: 1, ts: 5 });
  await eventually(async () => expect((await eventsOf(source.id)).data).toHaveLength(1));
  await hit(source, { n: 2, channel: 'big', text: 'x'.repeat(2000) });
  const list = await eventually(async () => {
    const found = await eventsOf(source.id);
    return found.data.length === 2 && found;
  });
  const [big, small] = list.data;
  expect(list.page_info).toEqual({ total_count: 2, count: 2, start_cursor: big.id, end_cursor: small.id });
  expect(small).toEqual({
    id: EVENT_ID,
    indexed_at_ms: Number(small.id.split('-')[0]),
    event: { n: 1, ts: 5 },
    metadata: { emit_id: TEXT, emitter_id: source.id, name: '', id: 1, summary: 'number 1', ts: 5 },
  });
  expect(big.event).toBe(JSON.stringify({ n: 2, channel: 'big', text: 'x'.repeat(2000) }).slice(0, 1024));
  expect(big.metadata).toEqual({
    ...{ emit_id: TEXT, emitter_id: source.id, name: 'big', id: 2, summary: 'number 2' },
    ...{ ts: null, truncated: true },
  });
  const whole = { n: 2, channel: 'big', text: 'x'.repeat(2000) };
  expect((await eventsOf(source.id, '?expand=event')).data[0].event).toEqual(whole);
  expect((await api('GET', `/sources/${source.id}/events/${big.id}`)).json.data.event).toEqual(whole);
  for (const path of [`/sources/${source.id}/sse`, `/v1/sources/${source.id}/sse`]) {
    const stream = await fetch(`${platform.url}${path}?last_event_id=${small.id}`, {
      headers: { authorization: `Bearer ${API_KEY}` },
    });
    expect(stream.headers.get('content-type')).toBe('text/event-stream');
    let text = '';
    for await (const piece of stream.body!.pipeThrough(new TextDecoderStream())) {
      text += piece;
      if (text.includes('data: ') && text.endsWith('\n\n')) break;
    }
    expect(text).toContain('retry: 3000');
    expect(text).toContain(':sse-handshake');
    const { truncated: _, ...metadata } = big.metadata;
    const data = JSON.stringify({ id: big.id, indexed_at_ms: big.indexed_at_ms, event: whole, metadata });
    expect(text).toContain(`id: ${big.id}\ndata: ${data}\n\n`);
  }
});

test('the newest events of a source are listed in the short form of older clients', async () => {
  const source = await newSource();
  for (let n = 1; n <= 3; n += 1) await hit(source, { n });
  await eventually(async () => expect((await eventsOf(source.id)).data).toHaveLength(3));
  const { status, json } = await api('GET', `/sources/${source.id}/events?n=2`);
  expect([status, json]).toEqual([
    200,
    { data: [3, 2].map((n) => ({ id: EVENT_ID, k: 'emit', e: { n }, ts: expect.any(Number) })) },
  ]);
  expect((await api('GET', `/sources/${source.id}/events?n=0`)).status).toBe(400);
});

test('deleting events answers 202 and null; ranges have both ends, one end or none', async () => {
  const source = await newSource();
  for (let n = 1; n <= 6; n += 1) {
    await hit(source, { n });
    await eventually(async () => expect((await eventsOf(source.id)).data).toHaveLength(n));
  }
  const left = async () =>
    (await eventsOf(source.id)).data.map(({ event }: { event: { n: number } }) => event.n);
  const ids = (await eventsOf(source.id)).data.map(({ id }: { id: string }) => id).reverse();
  for (const [query, expected] of [
    [`?start_id=${ids[2]}&end_id=${ids[2]}`, [6, 5, 4, 2, 1]],
    [`?start_id=${ids[3]}&end_id=${ids[4]}`, [6, 2, 1]],
    [`?end_id=${ids[0]}`, [6, 2]],
    [`?start_id=${ids[5]}`, [2]],
    [`?start_id=${ids[5]}&end_id=${ids[0]}`, [2]],
    ['', []],
  ] as const) {
    const answer = await api('DELETE', `/sources/${source.id}/events${query}`);
    expect([answer.status, answer.json]).toEqual([202, { data: null }]);
    await eventually(async () => expect(await left()).toEqual(expected));
  }
});

test('a run and the records of its error and its logs have their fields', async () => {
  const source = await newSource();
  const me = (await api('GET', '/users/me')).json.data;
  await hit(source, { n: 1, fail: true });
  const [record] = await eventually(async () => {
    const { data } = (await api('GET', `/sources/${source.id}/$errors/event_summaries`)).json;
    return data.length === 1 && data;
  });
  expect(record.metadata).toMatchObject({ name: '$errors', emitter_id: source.id });
  expect(record.event).toEqual({
    original_event: expect.objectContaining({ method: 'POST', body: { n: 1, fail: true } }),
    original_context: {
      id: RUN_ID,
      ts: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      workflow_id: null,
      source_id: source.id,
      deployment_id: idOf('d'),
      source_type: 'HTTP',
      verified: false,
      owner_id: me.id,
      platform_version: TEXT,
    },
    error: {
      code: 'RangeError',
      msg: 'too much',
      stack: expect.stringContaining('RangeError: too much'),
      ts: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
      cellId: null,
    },
  });
  const { data } = (await api('GET', `/sources/${source.id}/$logs/event_summaries`)).json;
  const kinds = data.map(({ event }: { event: { k: string } }) => event.k).reverse();
  expect(kinds).toEqual(['start', 'log', 'emit', 'error', 'end']);
  const [run] = (await api('GET', `/sources/${source.id}/runs?state=failed`)).json.data;
  expect(run).toEqual({
    ...{ id: record.event.original_context.id, emitter_id: source.id, state: 'failed', trigger: 'http' },
    ...{ started_at: SECONDS, duration_ms: SECONDS, compute_ms: SECONDS, emitted: 1, deduped: 0 },
    error: { code: 'RangeError', msg: 'too much', stack: expect.stringContaining('too much') },
  });
  expect((await api('GET', `/runs/${run.id}`)).json).toEqual({ data: run });
  const cancelled = await api('POST', `/runs/${run.id}/cancel`);
  expect([cancelled.status, cancelled.json.code]).toEqual([409, TEXT]);
});

test('a subscription has its fields, and is made, listed and removed by triple and by id', async () => {
  const { id } = await newSource();
  const webhook = (await api('POST', '/webhooks?url=http://127.0.0.1:9/')).json.data;
  const triple = `emitter_id=${id}&listener_id=${webhook.id}`;
  const created = await api('POST', `/subscriptions?${triple}&event_name=orders`);
  const shown = {
    ...{ id: idOf('sub'), emitter_id: id, listener_id: webhook.id },
    ...{ event_name: 'orders', created_at: SECONDS },
  };
  expect([created.status, created.json]).toEqual([200, { data: shown }]);
  expectNow(created.json.data.created_at);
  const plain = await api('POST', '/subscriptions', { emitter_id: id, listener_id: webhook.id });
  expect(plain.json.data).toEqual({ ...shown, event_name: '' });
  const both = await api('GET', '/users/me/subscriptions');
  expect(Object.keys(both.json)).toEqual(['data']);
  expect(both.json.data).toEqual(expect.arrayContaining([created.json.data, plain.json.data]));
  expect((await api('GET', `/subscriptions?${triple}&event_name=orders`)).json).toEqual({
    data: [created.json.data],
  });
  expect((await api('DELETE', `/subscriptions?${triple}`)).status).toBe(204);
  expect((await api('DELETE', `/subscriptions?${triple}`)).status).toBe(404);
  expect((await api('DELETE', `/subscriptions/${created.json.data.id}`)).status).toBe(204);
  expect((await api('GET', '/users/me/subscriptions')).json).toEqual({ data: [] });
});

test('an auto-subscription has its fields, and subscribes the listener to sources created later', async () => {
  const before = await newSource();
  const webhook = (await api('POST', '/webhooks?url=http://127.0.0.1:9/')).json.data;
  const pair = `event_name=$errors&listener_id=${webhook.id}`;
  const created = await api('POST', `/auto_subscriptions?${pair}`);
  const shown = { id: idOf('as'), event_name: '$errors', listener_id: webhook.id, created_at: SECONDS };
  expect([created.status, created.json]).toEqual([200, { data: shown }]);
  expect((await api('GET', '/auto_subscriptions')).json).toEqual({ data: [created.json.data] });
  const after = await newSource();
  const { data } = (await api('GET', `/subscriptions?listener_id=${webhook.id}`)).json;
  expect(data).toMatchObject([{ emitter_id: after.id, event_name: '$errors' }]);
  expect(data).not.toMatchObject([{ emitter_id: before.id }]);
  expect((await api('DELETE', `/auto_subscriptions?${pair}`)).status).toBe(204);
  const again = (await api('POST', `/auto_subscriptions?${pair}`)).json.data.id;
  expect((await api('DELETE', `/auto_subscriptions/${again}`)).status).toBe(204);
  expect((await api('GET', '/auto_subscriptions')).json).toEqual({ data: [] });
});

test('a webhook and a delivery have their fields', async () => {
  const me = (await api('GET', '/users/me')).json.data;
  const created = await api('POST', '/webhooks?url=http://127.0.0.1:9/hook&name=Orders&description=d');
  const shown = {
    ...{ id: idOf('wh'), user_id: me.id, name: 'Orders', description: 'd', url: 'http://127.0.0.1:9/hook' },
    ...{ active: true, created_at: SECONDS, updated_at: SECONDS },
  };
  expect([created.status, created.json]).toEqual([
    200,
    { data: { ...shown, secret: expect.stringMatching(/^whsec_/) } },
  ]);
  const { secret, ...webhook } = created.json.data;
  expect((await api('GET', `/webhooks/${webhook.id}`)).json).toEqual({ data: webhook });
  const list = (await api('GET', '/users/me/webhooks?limit=1')).json;
  expect(list).toMatchObject({ page_info: { count: 1 }, data: [webhook] });
  expect((await api('PUT', `/webhooks/${webhook.id}`, { name: null })).json.data).toMatchObject({
    name: null,
  });
  const enveloped = { payload_format: 'envelope' };
  expect((await api('PUT', `/webhooks/${webhook.id}`, enveloped)).json.data).toMatchObject(enveloped);
  const plain = (await api('PUT', `/webhooks/${webhook.id}`, { payload_format: 'raw' })).json.data;
  expect(plain).not.toHaveProperty('payload_format');
  expect((await api('POST', '/webhooks', { url: webhook.url, payload_format: 'xml' })).status).toBe(400);
  const rotated = (await api('POST', `/webhooks/${webhook.id}/rotate_secret`)).json.data.secret;
  expect([rotated.startsWith('whsec_'), rotated === secret]).toEqual([true, false]);

  const source = await newSource();
  await api('POST', '/subscriptions', { emitter_id: source.id, listener_id: webhook.id });
  await hit(source, { n: 1 });
  const [listed] = await eventually(async () => {
    const { data } = (await api('GET', `/webhooks/${webhook.id}/deliveries`)).json;
    return data.length === 1 && data[0].attempts === 1 && data;
  });
  const [event] = (await eventsOf(source.id)).data;
  expect(listed).toEqual({
    ...{
      id: expect.stringMatching(/^dlv_[0-9A-Za-z]{10,}$/),
      webhook_id: webhook.id,
      emitter_id: source.id,
      event_id: event.id,
      event_name: '',
    },
    ...{ status: 'pending', attempts: 1, next_attempt_at: SECONDS, created_at: SECONDS },
  });
  const delivery = (await api('GET', `/deliveries/${listed.id}`)).json.data;
  expect(delivery.attempt_log).toEqual([
    {
      ...{
        number: 1,
        at: SECONDS,
        duration_ms: SECONDS,
        status: null,
        error: 'connect ECONNREFUSED 127.0.0.1:9',
      },
      ...{ response_headers: null, response_body: null },
    },
  ]);
  expect((await api('POST', `/deliveries/${listed.id}/resend`)).status).toBe(202);
  const recovered = await api('POST', `/webhooks/${webhook.id}/recover?since=0`);
  expect([recovered.status, recovered.json]).toEqual([202, { data: { count: 0 } }]);
  const replayed = await api('POST', `/sources/${source.id}/events/replay`, { event_id: event.id });
  expect([replayed.status, replayed.json]).toEqual([202, { data: { count: 1 } }]);
  expect((await api('POST', `/webhooks/${webhook.id}/test`)).status).toBe(202);
  expect((await api('DELETE', `/webhooks/${webhook.id}`)).status).toBe(204);
  expect((await api('GET', `/webhooks/${webhook.id}`)).status).toBe(404);
});

test('a failure has its fields, with the id of the request in the header too', async () => {
  const refused = await api('POST', '/webhooks?url=ftp://example.com');
  expect([refused.status, refused.headers['content-type']]).toEqual([
    400,
    expect.stringMatching(/^application\/json/),
  ]);
  const request_id = refused.headers['x-request-id'];
  expect(refused.json).toEqual({ error: TEXT, code: 'invalid_parameter', param: 'url', request_id });
  const saved = (await api('POST', '/components', { component_code: CODE })).json.data;
  const source = (await api('POST', '/sources', { component_id: saved.id })).json.data;
  const kept = await api('DELETE', `/components/${saved.id}`);
  expect([kept.status, kept.json]).toEqual([
    409,
    {
      ...{ error: TEXT, code: 'component_in_use', request_id: TEXT },
      ...{ sources: expect.arrayContaining([source.id]), workflows: [] },
    },
  ]);
  const unknown = await call('GET', '/v1/nothing', { headers: { authorization: `Bearer ${API_KEY}` } });
  expect([unknown.status, unknown.json.code]).toEqual([404, 'not_found']);
});
