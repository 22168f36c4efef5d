import { expect, test } from '@jest/globals';
import { admin, api, expectNow, hit, idOf, platform, RUN_ID, SECONDS, usePlatform } from './api.fixture.ts';
import { eventually } from './eventually.ts';

/** Components, sources and accounts: every endpoint and every field, as a client gets them. */

usePlatform();

const CODE = `export default {
  name: 'New Orders',
  key: 'shop-new-orders',
  version: '0.1.2',
  description: 'Emits **orders**',
  props: {
    shop: { type: 'app', app: 'shop', optional: true },
    http: '$.interface.http',
    timer: { type: '$.interface.timer', default: { intervalSeconds: 900 } },
    db: '$.service.db',
    limit: { type: 'integer', label: 'Limit', description: 'At most', default: 5, optional: true, min: 1, max: 9 },
    token: { type: 'string', secret: true, optional: true },
  },
  run(event) { this.$emit(event.body ?? null); },
};`;

const COMPONENT = {
  id: idOf('sc'),
  code: CODE,
  code_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
  name: 'New Orders',
  key: 'shop-new-orders',
  version: '0.1.2',
  type: 'source',
  description: 'Emits **orders**',
  component_url: null,
  configurable_props: [
    { name: 'shop', type: 'app', app: 'shop', optional: true },
    { name: 'http', type: '$.interface.http' },
    { name: 'timer', type: '$.interface.timer', default: { intervalSeconds: 900 } },
    { name: 'db', type: '$.service.db' },
    {
      ...{ name: 'limit', type: 'integer', label: 'Limit', description: 'At most' },
      ...{ default: 5, optional: true, min: 1, max: 9 },
    },
    { name: 'token', type: 'string', secret: true, optional: true },
  ],
  created_at: SECONDS,
  updated_at: SECONDS,
};

test('a component has its fields, and is found by id, by key, in the lists and in the registry', async () => {
  const posted = await api('POST', '/components', { component_code: CODE });
  expect([posted.status, posted.json]).toEqual([200, { data: COMPONENT }]);
  const component = posted.json.data;
  expectNow(component.created_at, component.updated_at);
  for (const path of [component.id, 'shop-new-orders', 'shop-new-orders@0.1.2']) {
    expect((await api('GET', `/components/${path}`)).json).toEqual({ data: component });
  }
  expect((await api('GET', '/users/me/components')).json).toEqual({
    page_info: { total_count: 1, count: 1, start_cursor: expect.any(String), end_cursor: expect.any(String) },
    data: [component],
  });
  const published = await admin('PUT', '/registry', { component_code: CODE });
  expect(published.json.data).toEqual({ ...COMPONENT, id: idOf('sc') });
  const found = await api('GET', '/components/registry/shop-new-orders');
  expect([found.status, found.json.data]).toEqual([200, published.json.data]);
  expect((await admin('GET', '/registry')).json.data).toEqual([
    {
      key: 'shop-new-orders',
      version: '0.1.2',
      component_id: published.json.data.id,
      content_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      created_at: SECONDS,
    },
  ]);
  expect((await admin('DELETE', '/registry/shop-new-orders/0.1.2')).status).toBe(204);
  expect((await api('GET', '/components/registry/shop-new-orders')).status).toBe(404);
  const deleted = await api('DELETE', `/components/${component.id}`);
  expect([deleted.status, deleted.text]).toEqual([204, '']);
  expect((await api('GET', `/components/${component.id}`)).status).toBe(404);
});

test('an app that additionalProps adds has its methods and the chosen account, in options and in runs', async () => {
  const component_code = `const shop = { type: 'app', app: 'shop', methods: {
    greet(word) { return word + ' ' + this.$auth.token; },
  }, propDefinitions: {
    item: { type: 'string', optional: true, options({ kind }) { return [this.greet(kind)]; } },
  } };
  export default {
    name: 'Dynamic app',
    props: { http: '$.interface.http', mode: { type: 'string', reloadProps: true } },
    additionalProps() {
      return { shop, item: { propDefinition: [shop, 'item', ({ mode }) => ({ kind: mode })] } };
    },
    run() { this.$emit([this.shop.greet('run'), this.item]); },
  };`;
  const account = { app: 'shop', name: 'Mine', credentials: { token: 'secret-token' } };
  const { id } = (await api('POST', '/accounts', account)).json.data;
  const configured_props = { mode: 'fast', shop: { authProvisionId: id }, item: 'chosen' };
  const given = { component_code, configured_props };
  const options = await api('POST', '/components/configure', { ...given, prop_name: 'item' });
  expect(options.json.data.options).toEqual([{ label: 'fast secret-token', value: 'fast secret-token' }]);
  const source = (await api('POST', '/sources', given)).json.data;
  await hit(source, {});
  const [emitted] = await eventually(async () => {
    const { data } = (await api('GET', `/sources/${source.id}/event_summaries`)).json;
    return data.length === 1 && data;
  });
  expect(emitted.event).toEqual(['run secret-token', 'chosen']);
  const other = { ...configured_props, shop: { authProvisionId: 'apn_0000000009' } };
  expect((await api('POST', '/sources', { component_code, configured_props: other })).json).toMatchObject({
    param: 'configured_props.shop',
  });
  await api('DELETE', `/sources/${source.id}`);
});

test('options, props and a test run of a component have their fields', async () => {
  const component_code = `export default {
    name: 'Asked', version: '1.0.0',
    props: {
      kind: { type: 'string', reloadProps: true },
      item: { type: 'string', optional: true, options({ page }) {
        return { options: ['a', { label: 'B', value: 'b' }], context: { next: page + 1 } };
      } },
      http: { type: '$.interface.http', customResponse: true },
    },
    additionalProps() { return { extra: { type: 'integer', optional: true } }; },
    run(event) {
      console.log('seen');
      this.$emit(event, { id: 7, name: 'c', summary: 's', ts: 5 });
      this.http.respond({ status: 201, headers: { a: 'b' }, body: 'done' });
      throw new TypeError('after', { cause: new Error('before') });
    },
  };`;
  const given = { component_code, configured_props: { kind: 'x' } };
  const options = await api('POST', '/components/configure', { ...given, prop_name: 'item' });
  expect([options.status, options.json.data]).toEqual([
    200,
    {
      options: [
        { label: 'a', value: 'a' },
        { label: 'B', value: 'b' },
      ],
      context: { next: 1 },
    },
  ]);
  const props = await api('POST', '/components/props', given);
  const names = props.json.data.configurable_props.map(({ name }: { name: string }) => name);
  expect([props.status, names]).toEqual([200, ['kind', 'item', 'http', 'extra']]);
  const run = await api('POST', '/components/test', { ...given, event: { n: 1 } });
  expect([run.status, run.json]).toEqual([
    200,
    {
      data: {
        ok: false,
        emitted: [{ event: { n: 1 }, name: 'c', id: 7, summary: 's', ts: 5 }],
        logs: [{ ts: expect.any(Number), level: 'info', msg: 'seen' }],
        response: { status: 201, headers: { a: 'b' }, body: 'done', base64: false },
        exports: {},
        sends: [],
        truncated: false,
        duration_ms: expect.any(Number),
        error: {
          code: 'TypeError',
          msg: 'after',
          stack: expect.stringContaining('TypeError: after'),
          cause: expect.stringContaining('Error: before'),
        },
      },
    },
  ]);
  const action = `export default { name: 'Act', type: 'action', version: '1.0.0', run({ $ }) {
    $.send.http({ method: 'POST', url: 'https://example.com/' });
    return 1;
  } };`;
  const acted = await api('POST', '/components/test', { component_code: action });
  expect(acted.json.data).toMatchObject({
    exports: { $return_value: 1 },
    sends: [{ kind: 'http', request: { method: 'POST', url: 'https://example.com/' } }],
  });
});

test('a source has its fields, and is created, read, listed, updated and deleted', async () => {
  const account = (await api('POST', '/accounts', { app: 'shop', name: 'Mine', credentials: { k: 'v' } }))
    .json.data;
  const created = await api('POST', '/sources/', {
    component_code: CODE,
    component_url: 'https://example.com/only-kept.mjs',
    configured_props: { shop: { authProvisionId: account.id }, token: 'hush', timer: { cron: '@daily' } },
  });
  const user = (await api('GET', '/users/me')).json.data.id;
  expect([created.status, created.json]).toEqual([
    200,
    {
      data: {
        id: idOf('dc'),
        user_id: user,
        owner_id: user,
        component_id: idOf('sc'),
        configured_props: {
          shop: { authProvisionId: account.id },
          http: { endpoint_url: expect.stringMatching(/\/e\/e[a-z0-9]{26,}$/) },
          timer: { cron: '@daily', interval_seconds: null },
          limit: 5,
          token: '********',
        },
        active: true,
        concurrency: 1,
        created_at: SECONDS,
        updated_at: SECONDS,
        name: 'new-orders',
        name_slug: 'new-orders',
        next_run_at: SECONDS,
        last_run_at: null,
        last_event_at: null,
        last_error_at: null,
      },
    },
  ]);
  const source = created.json.data;
  expectNow(source.created_at, source.updated_at);
  expect((await api('GET', `/sources/${source.id}`)).json).toEqual({ data: source });
  for (const path of ['/users/me/sources', '/users/me/sources/']) {
    expect((await api('GET', path)).json).toMatchObject({
      page_info: { total_count: 1, count: 1 },
      data: [source],
    });
  }
  const changed = await api('PUT', `/sources/${source.id}`, {
    ...{ name: 'Renamed Orders', active: false },
    configured_props: { timer: { intervalSeconds: 60 }, limit: null },
  });
  expect([changed.status, changed.json.data]).toMatchObject([
    200,
    {
      ...{ id: source.id, component_id: source.component_id, active: false },
      ...{ name: 'Renamed Orders', name_slug: 'renamed-orders', next_run_at: null },
      configured_props: { timer: { cron: null, interval_seconds: 60 }, limit: 5, token: '********' },
    },
  ]);
  expect((await api('PUT', `/sources/${source.id}`, {})).json.data.active).toBe(true);
  const run = await api('POST', `/sources/${source.id}/run`, { event: { body: 1 } });
  expect([run.status, run.json]).toEqual([202, { data: { run_id: RUN_ID } }]);
  await eventually(async () => {
    const { data } = (await api('GET', `/sources/${source.id}`)).json;
    expectNow(data.last_run_at, data.last_event_at);
  });
  const deleted = await api('DELETE', `/sources/${source.id}`);
  expect([deleted.status, deleted.text]).toEqual([204, '']);
  expect((await api('GET', `/sources/${source.id}`)).status).toBe(404);
});

test('an account has its fields, without its credentials unless they are asked for', async () => {
  const user = (await api('GET', '/users/me')).json.data.id;
  const shown = {
    ...{ id: idOf('apn'), owner_id: user, user_id: user, app: 'crm', name: 'Work' },
    ...{ created_at: SECONDS, updated_at: SECONDS },
  };
  const credentials = { oauth_access_token: 'gho_1' };
  const created = await api('POST', '/accounts', { app: 'crm', name: 'Work', credentials });
  expect([created.status, created.json]).toEqual([200, { data: shown }]);
  const { id } = created.json.data;
  expect((await api('GET', '/users/me/accounts?app=crm')).json.data).toEqual([shown]);
  expect((await api('GET', `/accounts/${id}`)).json).toEqual({ data: shown });
  expect((await api('GET', `/accounts/${id}?include_credentials=1`)).json.data).toEqual({
    ...shown,
    credentials,
  });
  expect((await api('PUT', `/accounts/${id}`, { name: 'Home' })).json.data.name).toBe('Home');
  expect((await api('DELETE', `/accounts/${id}`)).status).toBe(204);
  expect((await api('GET', `/accounts/${id}`)).status).toBe(404);
});

test('the database of a source is read, replaced and emptied', async () => {
  const component_code = `export default { name: 'Db', props: { db: '$.service.db' }, run() { this.db.set('n', 1); } };`;
  const { id } = await platform.client.createSource({ component_code });
  await platform.client.runSource({ id });
  await eventually(async () =>
    expect((await api('GET', `/sources/${id}/db`)).json).toEqual({ data: { n: 1 } }),
  );
  const put = await api('PUT', `/sources/${id}/db`, { data: { m: [2] } });
  expect([put.status, put.json]).toEqual([200, { data: { m: [2] } }]);
  expect((await api('GET', `/sources/${id}/db`)).json).toEqual({ data: { m: [2] } });
  expect((await api('DELETE', `/sources/${id}/db`)).status).toBe(204);
  expect((await api('GET', `/sources/${id}/db`)).json).toEqual({ data: {} });
});
