import { expect, test } from '@jest/globals';
import { admin, api, call, hit, platform, usePlatform } from './api.fixture.ts';
import { eventually } from './eventually.ts';
import { API_KEY } from './platform.ts';

/** Limits that only whole calls reach. */

usePlatform();

const MB = 1024 * 1024;
const testRun = async (component_code: string) =>
  (await api('POST', '/components/test', { component_code })).json.data;

test('a body has at most 6 MB', async () => {
  const post = (bytes: number) => {
    const body = { url: 'http://127.0.0.1:9/', filler: '' };
    return call('POST', '/v1/webhooks', {
      body: { ...body, filler: 'x'.repeat(bytes - JSON.stringify(body).length) },
      // Otherwise the platform closes the connection after the answer, which may come before the end of the body.
      headers: { authorization: `Bearer ${API_KEY}`, connection: 'keep-alive' },
    });
  };
  expect((await post(6 * MB)).status).toBe(200);
  expect(await post(6 * MB + 1)).toMatchObject({ status: 413, json: { code: 'payload_too_large' } });
});

test('an account has at most 100 fields', async () => {
  const fields = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`field${n}`, 'x']));
  const post = (count: number) =>
    api('POST', '/accounts', { app: 'a', name: 'A', credentials: fields(count) });
  expect((await post(100)).status).toBe(200);
  expect(await post(101)).toMatchObject({ status: 400, json: { param: 'credentials' } });
});

test('a step makes at most 1,000 exports and requests', async () => {
  const exporting = (
    count: number,
  ) => `export default { name: 'Many', type: 'action', version: '1.0.0', run({ $ }) {
    for (let n = 0; n < ${count}; n += 1) $.export('e' + (n % 10), n);
  } };`;
  expect(await testRun(exporting(1000))).toMatchObject({ ok: true, exports: { e9: 999 } });
  const { ok, error } = await testRun(exporting(1001));
  expect([ok, error.msg]).toEqual([false, expect.stringContaining('more than 1000 exports and requests')]);
});

test('a test run shows at most 1,000 events and 4 MB', async () => {
  const emitting = (count: number, bytes: number) => `export default { name: 'Emits', run() {
    for (let n = 0; n < ${count}; n += 1) this.$emit('x'.repeat(${bytes}));
  } };`;
  const many = await testRun(emitting(1001, 1));
  expect([many.emitted.length, many.truncated]).toEqual([1000, true]);
  const large = await testRun(emitting(3, 1.5 * MB));
  expect([large.emitted.length, large.truncated]).toEqual([2, true]);
  const fits = await testRun(emitting(1000, 1));
  expect([fits.emitted.length, fits.truncated]).toEqual([1000, false]);
});

test('all steps of a workflow have 300 s together', async () => {
  const owner_id = (await api('GET', '/users/me')).json.data.id;
  const component = `export default { name: 'Deadline', type: 'action', version: '1.0.0', run({ $ }) {
    $.send.emit($.context.deadline - Date.parse($.context.ts));
  } };`;
  const steps = ['one', 'two'].map((name) => ({ name, component }));
  const definition = { name: 'Timed', trigger: { http: true }, steps };
  const { id, trigger } = (await admin('POST', '/workflows', { owner_id, definition })).json.data;
  await hit({ configured_props: { http: trigger } }, {});
  await eventually(async () => {
    const { data } = (await api('GET', `/workflows/${id}/event_summaries`)).json;
    const times = data.map(({ event }: { event: { raw_event: number } }) => event.raw_event);
    expect(times).toHaveLength(2);
    for (const time of times) expect(Math.abs(time - 300_000)).toBeLessThan(5000);
    expect(times[0]).toBe(times[1]);
  });
});

test('an HTTP call waits 30 s for respond(), then gets 400', async () => {
  const component_code = `export default {
    name: 'Late',
    props: { http: { type: '$.interface.http', customResponse: true } },
    async run() { await new Promise((resolve) => setTimeout(resolve, 40_000)); },
  };`;
  const source = await platform.client.createSource({ component_code });
  const began = performance.now();
  const answer = await hit(source as never, {});
  expect([answer.status, answer.text]).toEqual([400, 'No response']);
  expect(performance.now() - began).toBeGreaterThan(29_000);
}, 60_000);
