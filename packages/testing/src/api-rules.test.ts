import { expect, test } from '@jest/globals';
import { admin, api, call, hit, usePlatform } from './api.fixture.ts';
import { eventually } from './eventually.ts';
import { sink } from './platform.fixture.ts';
import { API_KEY } from './platform.ts';

/** Rules that several services keep together. */

usePlatform();

const ECHO = `export default { name: 'Echo', props: { http: '$.interface.http' }, run({ body }) { this.$emit(body); } };`;
const newSource = async (component_code = ECHO, key = API_KEY) =>
  (await api('POST', '/sources', { component_code }, key)).json.data;
const newWebhook = async (path: string) =>
  (await api('POST', '/webhooks', { url: `${sink.url}${path}` })).json.data;
const subscribe = (emitter_id: string, listener_id: string) =>
  api('POST', '/subscriptions', { emitter_id, listener_id });

test('a listener of dc_* gets the events of sources created later, and none of other owners', async () => {
  const webhook = await newWebhook('/glob');
  expect((await subscribe('dc_*', webhook.id)).status).toBe(200);
  const { api_key } = (await admin('POST', '/users', { username: 'other', email: 'o@example.com' })).json
    .data;
  await hit(await newSource(ECHO, api_key), { from: 'another owner' });
  await hit(await newSource(), { from: 'a later source' });
  const { text } = await sink.request(({ path }) => path === '/glob');
  expect(text).toBe('{"from":"a later source"}');
  const deliveries = async () => (await api('GET', `/webhooks/${webhook.id}/deliveries`)).json;
  await eventually(async () => (await deliveries()).data[0]?.status === 'delivered');
  expect((await deliveries()).page_info.total_count).toBe(1);
  await api('DELETE', `/webhooks/${webhook.id}`);
});

test('a workflow listens to a source, and its events reach sources and webhooks', async () => {
  const owner_id = (await api('GET', '/users/me')).json.data.id;
  const component = `export default { name: 'Pass', type: 'action', version: '1.0.0', run({ $, steps }) {
    $.send.emit({ passed: steps.trigger.event });
  } };`;
  const definition = { name: 'Pass', trigger: { http: true }, steps: [{ name: 'pass', component }] };
  const workflow = (await admin('POST', '/workflows', { owner_id, definition })).json.data;
  const [emitter, listener] = [await newSource(), await newSource(`export default { name: 'Bare' };`)];
  const webhook = await newWebhook('/workflow');
  await subscribe(emitter.id, workflow.id);
  await subscribe(workflow.id, webhook.id);
  await subscribe(workflow.id, listener.id);
  await hit(emitter, { n: 1 });
  expect((await sink.request(({ path }) => path === '/workflow')).text).toBe('{"passed":{"n":1}}');
  await eventually(async () => {
    const { data } = (await api('GET', `/sources/${listener.id}/event_summaries`)).json;
    expect(data.map(({ event }: { event: unknown }) => event)).toEqual([{ passed: { n: 1 } }]);
  });
});

test('an endpoint follows its source: disabled and deleted it is a 404, enabled it answers, with new code at once', async () => {
  const answering = (text: string) => `export default { name: 'Answer',
    props: { http: { type: '$.interface.http', customResponse: true } },
    run() { this.http.respond({ status: 200, body: '${text}' }); } };`;
  const source = await newSource(answering('one'));
  const put = (body: object) => api('PUT', `/sources/${source.id}`, body);
  const isGone = () =>
    eventually(async () => expect((await hit(source, {})).status).toBe(404), { ms: 2_000 });
  const answers = () => eventually(async () => expect((await hit(source, {})).text).toBe('two'));
  expect((await hit(source, {})).text).toBe('one');
  await put({ component_code: answering('two') });
  expect((await hit(source, {})).text).toBe('two');
  await put({ active: false });
  await isGone();
  await put({ active: true });
  await answers();
  await api('DELETE', `/sources/${source.id}`);
  await isGone();
});

test('defineComponent, defineSource, defineAction and defineApp return their argument; TypeScript may have enums', async () => {
  for (const define of ['defineComponent', 'defineSource', 'defineApp']) {
    const component_code = `enum Kind { Order = 'order' }
      const kept: { name: string } = { name: 'x' };
      export default ${define}({ name: 'Typed', ${define === 'defineApp' ? '' : `type: 'source',`} run(): void {
        this.$emit([Kind.Order, ${define}(kept) === kept]);
      } });`;
    const { emitted } = (await api('POST', '/components/test', { component_code })).json.data;
    expect(emitted).toMatchObject([{ event: ['order', true] }]);
  }
  const action = `export default defineAction({ name: 'A', type: 'action', version: '1.0.0', run: () => 1 });`;
  const { exports } = (await api('POST', '/components/test', { component_code: action })).json.data;
  expect(exports).toEqual({ $return_value: 1 });
});

test('the environment of code has few variables, and none of the platform', async () => {
  const component_code = `export default { name: 'Env', run() { this.$emit(Object.keys(process.env)); } };`;
  const [{ event }] = (await api('POST', '/components/test', { component_code })).json.data.emitted;
  const allowed = /^(PD_COMPONENT|PIPEDREAM_\w+|HOME|PATH|PWD|TZ|TMPDIR|NODE_ENV)$/;
  expect(event.filter((name: string) => !allowed.test(name))).toEqual([]);
});

test('unknown components are a 404, and a stream that cannot begin is a JSON error', async () => {
  for (const body of [{ component_id: 'sc_0000000000' }, { key: 'nobody-has-this' }]) {
    expect((await api('POST', '/sources', body)).status).toBe(404);
  }
  const { id } = await newSource();
  const unauthorized = await call('GET', `/sources/${id}/sse`);
  expect([unauthorized.status, unauthorized.json.code]).toEqual([401, 'unauthorized']);
  const unknown = await api('GET', '/sources/dc_0000000000/sse');
  expect([unknown.status, unknown.json.code]).toEqual([404, 'not_found']);
});

test('a run that emits with delivery_ts emits when it is due', async () => {
  const component_code = `export default { name: 'Later', props: { http: '$.interface.http' }, run() {
    this.$emit('later', { delivery_ts: Date.now() + 10_000 });
    this.$emit('now');
  } };`;
  const source = await newSource(component_code);
  const events = async (query = '') =>
    (await api('GET', `/sources/${source.id}/event_summaries${query}`)).json.data.map(
      ({ event }: { event: unknown }) => event,
    );
  await hit(source, {});
  await eventually(async () => expect(await events()).toEqual(['now']));
  expect(await events('?event_name=$in')).toEqual(['later']);
  await eventually(async () => expect(await events()).toEqual(['later', 'now']), { ms: 20_000 });
}, 60_000);

test('values without a prop are named in a header when a source is created or updated, or a component is tested', async () => {
  const component_code = `export default {
    name: 'Typed',
    props: { http: '$.interface.http', kind: { type: 'string', reloadProps: true } },
    additionalProps() { return { extra: { type: 'integer', optional: true } }; },
    run() {},
  };`;
  const given = (values: object) => ({
    component_code,
    other: 1,
    configured_props: { kind: 'x', extra: 2, ...values },
  });
  const tested = await api('POST', '/components/test', given({ kidn: 'y' }));
  expect([tested.status, tested.headers['x-wellspring-ignored']]).toEqual([
    200,
    'other, configured_props.kidn',
  ]);
  const created = await api('POST', '/sources', given({ kidn: 'y' }));
  expect([created.status, created.headers['x-wellspring-ignored']]).toEqual([
    200,
    'other, configured_props.kidn',
  ]);
  const { id } = created.json.data;
  const updated = await api('PUT', `/sources/${id}`, { configured_props: { extra: 3, 'a b': 1 } });
  expect([updated.status, updated.headers['x-wellspring-ignored']]).toEqual([200, 'configured_props.a%20b']);
  const right = await api('PUT', `/sources/${id}`, { configured_props: { extra: 4 } });
  expect([right.status, right.headers['x-wellspring-ignored']]).toEqual([200, undefined]);
});

test.each([
  [
    'by its own fault',
    'const n = 1;\nmissing.call();',
    'ReferenceError: missing is not defined (component.js:2:1)',
  ],
  [
    'in a package',
    "import ms from 'ms@2.1.3';\n\nms({});",
    'Error: val is not a non-empty string or a valid number. val={} (component.js:3:1)',
  ],
  [
    'for another error',
    "throw new Error('no settings', { cause: new Error('status 401') });",
    'Error: no settings (Error: status 401) (component.js:1:7)',
  ],
  [
    'for several others',
    "await Promise.any([Promise.reject(new Error('one')), Promise.reject(new TypeError('two'))]);",
    'AggregateError: All promises were rejected (Error: one; TypeError: two)',
  ],
])('code that fails %s when it is loaded is refused with the place', async (_how, lines, failure) => {
  const { status, json } = await api('POST', '/components', {
    component_code: `${lines}\nexport default { name: 'x', run() {} };`,
  });
  expect([status, json.code, json.error]).toEqual([
    400,
    'invalid_component',
    `The code failed when it was loaded: ${failure}`,
  ]);
});
