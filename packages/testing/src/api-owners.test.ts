import { expect, test } from '@jest/globals';
import {
  admin,
  api,
  call,
  expectNow,
  hit,
  idOf,
  platform,
  SECONDS,
  TEXT,
  usePlatform,
} from './api.fixture.ts';
import { eventually } from './eventually.ts';

/** Users, organizations, workflows and the operator API: every endpoint and every field, as a client gets them. */

usePlatform();

const DATES = { created_at: SECONDS, updated_at: SECONDS };
const newUser = async (fields: object) =>
  (await admin('POST', '/users', { email: 'a@example.com', ...fields })).json.data;

test('a user has the fields of its plan: daily use and quotas, or those of the billing period', async () => {
  const quotas = { daily_invocations_quota: 100, daily_compute_time_quota: 60_000 };
  const created = await admin('POST', '/users', { username: 'ada', email: 'ada@example.com', quotas });
  const shown = { id: idOf('u'), username: 'ada', email: 'ada@example.com', plan: 'free', quotas, ...DATES };
  expect([created.status, created.json]).toEqual([200, { data: { ...shown, api_key: TEXT } }]);
  const { api_key, ...user } = created.json.data;
  const org = (await admin('POST', '/orgs', { orgname: 'acme', name: 'Acme', email: 'o@example.com' })).json
    .data;
  expect(org).toEqual({
    ...{ id: idOf('o'), orgname: 'acme', name: 'Acme', email: 'o@example.com' },
    ...{ code_allow_networks: [], ...DATES },
  });
  expect((await admin('PUT', `/orgs/${org.id}/members/${user.id}`)).status).toBe(204);
  const me = await api('GET', '/users/me', undefined, api_key);
  const own = {
    ...{ id: user.id, username: 'ada', email: 'ada@example.com' },
    orgs: [{ id: org.id, name: 'Acme', orgname: 'acme', email: 'o@example.com' }],
  };
  expect([me.status, me.json]).toEqual([
    200,
    { data: { ...own, ...quotas, daily_compute_time_used: 0, daily_invocations_used: 0 } },
  ]);
  expect((await admin('PUT', `/users/${user.id}`, { plan: 'paid' })).json.data).toMatchObject({
    plan: 'paid',
  });
  const month = new Date();
  expect((await api('GET', '/users/me', undefined, api_key)).json.data).toEqual({
    ...own,
    billing_period_start_ts: Date.UTC(month.getUTCFullYear(), month.getUTCMonth(), 1) / 1000,
    billing_period_end_ts: Date.UTC(month.getUTCFullYear(), month.getUTCMonth() + 1, 1) / 1000,
    billing_period_invocations: 0,
  });
  expect((await admin('GET', `/users/${user.id}`)).json.data).toMatchObject({ id: user.id, plan: 'paid' });
  expect((await admin('GET', '/users?limit=1')).json).toMatchObject({
    page_info: { total_count: 2, count: 1 },
    data: [{ id: user.id }],
  });
  expect((await admin('DELETE', `/users/${user.id}`)).status).toBe(204);
});

test('a run counts as an invocation of its owner, with its compute time in milliseconds', async () => {
  const { api_key } = await newUser({ username: 'counted' });
  const component_code = `export default { name: 'C', props: { http: '$.interface.http' }, run() {} };`;
  const source = (await api('POST', '/sources', { component_code }, api_key)).json.data;
  await hit(source, {});
  await eventually(async () => {
    const { data } = (await api('GET', '/users/me', undefined, api_key)).json;
    expect(data.daily_invocations_used).toBe(1);
    expect(data.daily_compute_time_used).toBeGreaterThan(0);
    expect(data.daily_compute_time_used).toBeLessThan(60_000);
  });
});

test('an API key has its fields; its text is shown when it is made', async () => {
  const created = await api('POST', '/users/me/api_keys', { name: 'deployments' });
  const shown = { id: idOf('key'), name: 'deployments', created_at: SECONDS, last_used_at: null };
  expect([created.status, created.json]).toEqual([200, { data: { ...shown, api_key: TEXT } }]);
  const { api_key, ...unused } = created.json.data;
  const { id } = unused;
  expect((await api('GET', '/users/me/api_keys')).json.data).toContainEqual(unused);
  await eventually(async () => {
    const list = (await api('GET', '/users/me/api_keys', undefined, api_key)).json;
    expect(Object.keys(list)).toEqual(['data']);
    const [{ last_used_at, ...newest }] = list.data;
    expect({ ...newest, last_used_at: null }).toEqual(unused);
    expectNow(last_used_at);
  });
  expect((await api('DELETE', `/users/me/api_keys/${id}`)).status).toBe(204);
  expect((await api('GET', '/users/me', undefined, api_key)).status).toBe(401);
  const user = await newUser({ username: 'keyed' });
  const further = await admin('POST', `/users/${user.id}/api_keys`, {});
  const { api_key: text, ...made } = further.json.data;
  expect([made, text]).toEqual([{ ...shown, name: null }, TEXT]);
  const listed = (await admin('GET', `/users/${user.id}/api_keys`)).json;
  expect(listed).toEqual({ data: [made, { ...shown, id: idOf('key'), name: null }] });
  expect((await admin('DELETE', `/users/${user.id}/api_keys/${further.json.data.id}`)).status).toBe(204);
});

test('members of an organization see each other, page by page, and strangers do not', async () => {
  const org = (await admin('POST', '/orgs', { orgname: 'crew', name: 'Crew', email: 'c@example.com' })).json
    .data;
  const { api_key: stranger } = await newUser({ username: 'outside' });
  const crew: { id: string; api_key: string }[] = [];
  for (const username of ['older', 'newer']) {
    crew.unshift(await newUser({ username }));
    await admin('PUT', `/orgs/${org.id}/members/${crew[0]!.id}`);
  }
  const list = (query: string, key = crew[0]!.api_key) =>
    api('GET', `/orgs/${org.id}/members?${query}`, undefined, key);
  const first = (await list('limit=1')).json;
  expect(first).toMatchObject({
    page_info: { total_count: 2, count: 1 },
    data: [{ id: crew[0]!.id, username: 'newer', email: 'a@example.com' }],
  });
  const rest = (await list(`limit=5&after=${first.page_info.end_cursor}`)).json;
  expect(rest.data).toEqual([{ id: crew[1]!.id, username: 'older', email: 'a@example.com' }]);
  expect((await list(`limit=5&before=${rest.page_info.start_cursor}`)).json.data).toEqual(first.data);
  expect((await list('', stranger)).status).toBe(404);
});

test('an organization lists what belongs to it, to its members; org_id says where something is created', async () => {
  const org = (await admin('POST', '/orgs', { orgname: 'beta', name: 'Beta', email: 'b@example.com' })).json
    .data;
  const { id: member, api_key: key } = await newUser({ username: 'member' });
  const { api_key: stranger } = await newUser({ username: 'stranger' });
  await admin('PUT', `/orgs/${org.id}/members/${member}`);
  const inOrg = `org_id=${org.id}`;
  const component_code = `export default { name: 'Of the org', run() {} };`;
  const source = (await api('POST', `/sources?${inOrg}`, { component_code }, key)).json.data;
  expect(source).toMatchObject({ user_id: member, owner_id: org.id });
  const webhook = (await api('POST', `/webhooks?url=http://127.0.0.1:9/&${inOrg}`, undefined, key)).json.data;
  const ends = `emitter_id=${source.id}&listener_id=${webhook.id}`;
  const subscription = (await api('POST', `/subscriptions?${ends}&${inOrg}`, undefined, key)).json.data;
  const account = { app: 'a', name: 'A', credentials: { k: 'v' }, org_id: org.id };
  const { id: accountId } = (await api('POST', '/accounts', account, key)).json.data;
  for (const [list, id] of [
    ['sources', source.id],
    ['webhooks', webhook.id],
    ['subscriptions', subscription.id],
    ['accounts', accountId],
    ['components', source.component_id],
  ]) {
    const shown = (await api('GET', `/orgs/${org.id}/${list}`, undefined, key)).json.data;
    expect([list, shown.map((one: { id: string }) => one.id)]).toEqual([list, [id]]);
    expect((await api('GET', `/users/me/${list}`, undefined, key)).json.data).toEqual([]);
    expect((await api('GET', `/users/me/${list}?${inOrg}`, undefined, key)).json.data).toEqual(shown);
    expect((await api('GET', `/users/me/${list}?${inOrg}`, undefined, stranger)).status).toBe(403);
    expect((await api('GET', `/orgs/${org.id}/${list}`, undefined, stranger)).status).toBe(404);
  }
  // One resource needs no org_id.
  expect((await api('GET', `/sources/${source.id}`, undefined, key)).status).toBe(200);
  expect((await api('GET', `/sources/${source.id}`, undefined, stranger)).status).toBe(404);
  expect((await api('POST', `/sources?${inOrg}`, { component_code }, stranger)).status).toBe(403);
  expect((await admin('GET', `/orgs/${org.id}`)).json.data).toEqual(org);
  expect((await admin('PUT', `/orgs/${org.id}`, { name: 'B' })).json.data).toMatchObject({ name: 'B' });
  expect((await admin('GET', '/orgs?limit=1')).json).toMatchObject({
    page_info: { count: 1 },
    data: [{ name: 'B' }],
  });
  expect((await admin('DELETE', `/orgs/${org.id}/members/${member}`)).status).toBe(204);
  expect((await api('GET', `/orgs/${org.id}/sources`, undefined, key)).status).toBe(404);
  expect((await admin('DELETE', `/orgs/${org.id}`)).status).toBe(204);
});

test('a workflow has its fields; its events, errors, logs, runs and stream are read as those of a source', async () => {
  const owner_id = (await api('GET', '/users/me')).json.data.id;
  const component = `export default { name: 'Step', type: 'action', version: '1.0.0', run({ $, steps }) {
    const { body } = steps.trigger.event;
    $.send.emit({ raw_event: { n: body.n } });
    $.send.sse({ channel: 'live', payload: { n: body.n } });
    console.log('step ran');
    if (body.fail) throw new TypeError('no more');
  } };`;
  const definition = { name: 'Flow', trigger: { http: true }, steps: [{ name: 'one', component }] };
  const created = await admin('POST', '/workflows', { owner_id, definition });
  expect([created.status, created.json.data]).toEqual([
    200,
    {
      ...{ id: idOf('p'), owner_id, name: 'Flow', definition, deployment_id: idOf('d'), ...DATES },
      trigger: { source_id: idOf('dc'), endpoint_url: expect.stringMatching(/\/e\/e/) },
    },
  ]);
  const workflow = created.json.data;
  expectNow(workflow.created_at, workflow.updated_at);
  expect((await admin('GET', `/workflows/${workflow.id}`)).json.data).toEqual(workflow);
  expect((await admin('GET', '/workflows')).json.data).toEqual([workflow]);
  const openStream = () =>
    fetch(`${platform.url}/workflows/${workflow.id}/sse`, {
      headers: { authorization: `Bearer ${platform.apiKey}` },
    });
  const stream = await openStream();
  await call('POST', new URL(workflow.trigger.endpoint_url).pathname, { body: { n: 1, fail: true } });
  const [event] = await eventually(async () => {
    const { data } = (await api('GET', `/workflows/${workflow.id}/event_summaries`)).json;
    return data.length === 1 && data;
  });
  expect(event).toMatchObject({
    event: { raw_event: { n: 1 } },
    metadata: { emitter_id: workflow.id, name: '' },
  });
  expect((await api('GET', `/sources/${workflow.id}/event_summaries`)).json.data).toEqual([event]);
  const [{ event: record }] = (await api('GET', `/workflows/${workflow.id}/%24errors/event_summaries`)).json
    .data;
  expect(record).toEqual({
    original_event: expect.objectContaining({ body: { n: 1, fail: true } }),
    original_context: {
      ...{ id: expect.stringMatching(/^run_/), emitter_id: workflow.trigger.source_id, ts: TEXT },
      ...{ workflow_id: workflow.id, source_id: null, verified: false, owner_id },
      ...{ deployment_id: workflow.deployment_id, source_type: 'HTTP', platform_version: TEXT },
    },
    error: {
      ...{ code: 'TypeError', msg: 'no more', stack: expect.stringContaining('no more'), ts: TEXT },
      cellId: idOf('c'),
    },
  });
  const logs = (await api('GET', `/workflows/${workflow.id}/$logs/event_summaries`)).json.data;
  expect(JSON.stringify(logs)).toContain('step ran');
  const runs = (await api('GET', `/workflows/${workflow.id}/runs`)).json.data;
  expect(runs).toMatchObject([{ emitter_id: workflow.id, state: 'failed', error: { msg: 'no more' } }]);
  // A stream that is opened later begins with the same.
  for (const opened of [stream, await openStream()]) {
    let text = '';
    for await (const piece of opened.body!.pipeThrough(new TextDecoderStream())) {
      text += piece;
      if (text.includes('event: live') && text.includes(event.id)) break;
    }
    expect(text).toMatch(/^retry: 3000\n\n:keepalive\n\n/);
    expect(text).toContain('data: {"n":1}');
  }
  const changed = { definition: { ...definition, name: 'Flow 2' } };
  expect((await admin('PUT', `/workflows/${workflow.id}`, changed)).json.data).toMatchObject({
    ...{ id: workflow.id, name: 'Flow 2', trigger: workflow.trigger },
  });
  expect((await admin('DELETE', `/workflows/${workflow.id}`)).status).toBe(204);
  expect((await admin('GET', `/workflows/${workflow.id}`)).status).toBe(404);
});

test('lists have pages of 10 unless limit says 1 to 100, and cursors in both directions', async () => {
  const { api_key: key } = await newUser({ username: 'pages' });
  for (let n = 0; n < 12; n += 1) await api('POST', `/webhooks?url=http://127.0.0.1:9/${n}`, undefined, key);
  const page = async (query = '') => (await api('GET', `/users/me/webhooks${query}`, undefined, key)).json;
  const first = await page();
  expect(first.page_info).toEqual({ total_count: 12, count: 10, start_cursor: TEXT, end_cursor: TEXT });
  const rest = await page(`?after=${first.page_info.end_cursor}`);
  expect(rest.page_info).toMatchObject({ total_count: 12, count: 2 });
  expect(await page(`?before=${rest.page_info.start_cursor}`)).toEqual(first);
  expect((await page('?limit=500')).page_info.count).toBe(12);
  expect((await page('?limit=1&include=url,id&exclude=id')).data).toEqual([{ url: 'http://127.0.0.1:9/11' }]);
  for (const query of ['limit=0', 'limit=1.5', 'after=!!', `after=${first.page_info.end_cursor}&before=x`]) {
    expect((await api('GET', `/users/me/webhooks?${query}`, undefined, key)).status).toBe(400);
  }
  const { api_key: nobody } = await newUser({ username: 'empty' });
  expect((await api('GET', '/users/me/webhooks', undefined, nobody)).json).toEqual({
    page_info: { total_count: 0, count: 0, start_cursor: null, end_cursor: null },
    data: [],
  });
});
