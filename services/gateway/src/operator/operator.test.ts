import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { CALLS, type ForgetCall } from '@wellspring/contract/calls';
import { newSecret } from '@wellspring/core/ids';
import { PoisonJob } from '@wellspring/queue/port';
import { accounts } from '@wellspring/store/collections/accounts';
import { endpoints, sources } from '@wellspring/store/collections/sources';
import { states } from '@wellspring/store/collections/states';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { apiKeys, members } from '@wellspring/store/collections/users';
import { eventually } from '@wellspring/testing/eventually';
import { sourceRow, subscriptionRow } from '@wellspring/testing/rows';
import { type Platform, startGateway } from '../platform.fixture.ts';

let platform: Platform;
/** Sources that the runner was told to forget. */
const forgotten: string[] = [];
beforeAll(async () => {
  platform = await startGateway({
    others: {
      runner: ({ call }) => ({
        name: 'runner',
        workers: [
          {
            name: 'forget',
            async run(signal) {
              const forget = async ({ source_id }: ForgetCall['message']) => {
                forgotten.push(source_id);
                return { ok: true };
              };
              call.serve(CALLS.forget, forget, signal);
            },
          },
        ],
      }),
    },
  });
});
afterAll(() => platform.stop());

const admin = (method: string, path: string, body?: object) =>
  platform.admin(method, path, body === undefined ? {} : { body });
const newUser = async (fields: object = {}) =>
  (await admin('POST', '/users', { username: newSecret(), email: 'a@example.com', ...fields })).json.data;
const newOrg = async () =>
  (await admin('POST', '/orgs', { orgname: newSecret(), name: 'Org', email: 'o@example.com' })).json.data;

describe('users', () => {
  test('are made with a key that works and is shown once', async () => {
    const { api_key, ...user } = await newUser({ plan: 'paid', quotas: { daily_invocations_quota: 5 } });
    expect(user).toMatchObject({
      plan: 'paid',
      quotas: { daily_invocations_quota: 5, daily_compute_time_quota: null },
    });
    expect((await platform.api('GET', '/users/me', { key: api_key })).json.data.id).toBe(user.id);
    const shown = await admin('GET', `/users/${user.id}`);
    expect(shown.json.data).toEqual(user);
    const rows = await platform.deps.store.collection(apiKeys).list({ where: { user_id: user.id } });
    expect(JSON.stringify(rows)).not.toContain(api_key);
  });

  test.each([
    [{}, 'username'],
    [{ username: 'x' }, 'email'],
    [{ username: { $gt: '' }, email: 'a@b' }, 'username'],
    [{ username: '', email: 'a@b' }, 'username'],
    [{ username: 'x', email: 'a@b', plan: 'golden' }, 'plan'],
    [
      { username: 'x', email: 'a@b', quotas: { daily_invocations_quota: 'many' } },
      'quotas.daily_invocations_quota',
    ],
  ])('cannot be created from %j', async (body, param) => {
    const answer = await admin('POST', '/users', body);
    expect([answer.status, answer.json.param]).toEqual([400, param]);
  });

  test('have names of their own', async () => {
    const { username } = await newUser();
    const answer = await admin('POST', '/users', { username, email: 'b@example.com' });
    expect([answer.status, answer.json.code]).toEqual([409, 'username_taken']);
  });

  test('change only the given fields; null removes a quota', async () => {
    const { id, username } = await newUser({
      quotas: { daily_invocations_quota: 5, daily_compute_time_quota: 6 },
    });
    const body = { email: 'new@example.com', quotas: { daily_invocations_quota: null } };
    const { data } = (await admin('PUT', `/users/${id}`, body)).json;
    expect(data).toMatchObject({
      username,
      email: 'new@example.com',
      plan: 'free',
      quotas: { daily_invocations_quota: null, daily_compute_time_quota: 6 },
    });
  });

  test('are listed newest first, page by page, with cursors both ways', async () => {
    const made: string[] = [];
    for (let i = 0; i < 5; i += 1) made.unshift((await newUser()).id);
    const ids = async (query: string) => {
      const { json } = await admin('GET', `/users?${query}`);
      return { ids: json.data.map(({ id }: { id: string }) => id), info: json.page_info };
    };
    const first = await ids('limit=2');
    expect(first.ids).toEqual(made.slice(0, 2));
    const second = await ids(`limit=2&after=${first.info.end_cursor}`);
    expect(second.ids).toEqual(made.slice(2, 4));
    expect((await ids(`limit=2&before=${second.info.start_cursor}`)).ids).toEqual(made.slice(0, 2));
    expect((await ids(`limit=1&before=${second.info.end_cursor}`)).ids).toEqual([made[2]]);
    expect(first.info.total_count).toBe(second.info.total_count);
    // The user of a cursor may have been deleted.
    await admin('DELETE', `/users/${made[1]}`);
    expect((await ids(`limit=2&after=${first.info.end_cursor}`)).ids).toEqual(made.slice(2, 4));
    expect((await ids('limit=1000')).info.count).toBeLessThanOrEqual(100);
    for (const [query, param] of [
      ['limit=0', 'limit'],
      ['limit=x', 'limit'],
      ['after=!!', 'after'],
      [`before=${Buffer.from('nothing').toString('base64url')}`, 'before'],
      [`after=${first.info.end_cursor}&before=${first.info.end_cursor}`, 'before'],
    ]) {
      const answer = await admin('GET', `/users?${query}`);
      expect([query, answer.status, answer.json.param]).toEqual([query, 400, param]);
    }
  });

  test('have further keys, which end one by one', async () => {
    const user = await newUser();
    const { id, api_key } = (await admin('POST', `/users/${user.id}/api_keys`, {})).json.data;
    expect((await platform.api('GET', '/users/me', { key: api_key })).status).toBe(200);
    const other = await newUser();
    expect((await admin('DELETE', `/users/${other.id}/api_keys/${id}`)).status).toBe(404);
    expect((await admin('DELETE', `/users/${user.id}/api_keys/${id}`)).status).toBe(204);
    expect((await platform.api('GET', '/users/me', { key: api_key })).status).toBe(401);
    expect((await platform.api('GET', '/users/me', { key: user.api_key })).status).toBe(200);
  });

  test('are deleted with everything that is theirs, and nothing else', async () => {
    const [user, other] = [await newUser(), await newUser()];
    const { store } = platform.deps;
    const [own, foreign] = [sourceRow({ owner_id: user.id }), sourceRow({ owner_id: other.id })];
    for (const row of [own, foreign]) await store.collection(sources).insert(row);
    const endpoint = await platform.endpoint({ owner_id: user.id, source_id: own.id });
    const ends = { owner_id: other.id, emitter_id: foreign.id, listener_id: own.id };
    await store.collection(subscriptions).insert(subscriptionRow(ends));
    const account = { user_id: user.id, app: 'a', name: '', credentials: '', created_at: 0, updated_at: 0 };
    for (const [id, owner_id] of [
      ['apn_0000000001', user.id],
      ['apn_0000000002', other.id],
    ] as const)
      await store.collection(accounts).insert({ ...account, id, owner_id });
    expect((await admin('DELETE', `/users/${user.id}`)).status).toBe(204);
    expect((await platform.api('GET', '/users/me', { key: user.api_key })).status).toBe(401);
    expect((await admin('GET', `/users/${user.id}`)).status).toBe(404);
    expect((await platform.call('POST', `/e/${endpoint.id}`)).status).toBe(404);
    expect(await store.collection(sources).get(own.id)).toBeUndefined();
    expect(forgotten).toEqual([own.id]);
    expect(await store.collection(endpoints).get(endpoint.id)).toBeUndefined();
    expect(await store.collection(subscriptions).count({ listener_id: own.id })).toBe(0);
    expect(await store.collection(accounts).list()).toMatchObject([{ owner_id: other.id }]);
    expect(await store.collection(sources).get(foreign.id)).toEqual(foreign);
    expect((await platform.api('GET', '/users/me', { key: other.api_key })).status).toBe(200);
  });

  test.each([
    ['GET', '/users/u_0000000000'],
    ['PUT', '/users/u_0000000000'],
    ['DELETE', '/users/u_0000000000'],
    ['POST', '/users/u_0000000000/api_keys'],
    ['DELETE', '/users/u_0000000000/api_keys/key_0000000000'],
    ['GET', '/orgs/o_0000000000'],
    ['PUT', '/orgs/o_0000000000'],
    ['DELETE', '/orgs/o_0000000000'],
    ['DELETE', '/dead_letters/nothing'],
    ['POST', '/dead_letters/nothing/redrive'],
  ])('%s %s is 404', async (method, path) => expect((await admin(method, path, {})).status).toBe(404));
});

describe('organizations', () => {
  test('have members, who see them at once and no longer once they left', async () => {
    const [org, user] = [await newOrg(), await newUser()];
    const orgsOf = async () => (await platform.api('GET', '/users/me', { key: user.api_key })).json.data.orgs;
    expect(await orgsOf()).toEqual([]);
    for (let i = 0; i < 2; i += 1)
      expect((await admin('PUT', `/orgs/${org.id}/members/${user.id}`)).status).toBe(204);
    expect(await orgsOf()).toEqual([{ id: org.id, name: org.name, orgname: org.orgname, email: org.email }]);
    expect((await admin('DELETE', `/orgs/${org.id}/members/${user.id}`)).status).toBe(204);
    expect(await orgsOf()).toEqual([]);
    expect((await admin('DELETE', `/orgs/${org.id}/members/${user.id}`)).status).toBe(404);
  });

  test('take only users that exist', async () => {
    const [org, user] = [await newOrg(), await newUser()];
    expect((await admin('PUT', `/orgs/${org.id}/members/u_0000000000`)).status).toBe(404);
    expect((await admin('PUT', `/orgs/o_0000000000/members/${user.id}`)).status).toBe(404);
  });

  test('have names of their own, also when they are renamed', async () => {
    const [first, second] = [await newOrg(), await newOrg()];
    const taken = { orgname: first.orgname, name: 'x', email: 'x@example.com' };
    expect((await admin('POST', '/orgs', taken)).json.code).toBe('orgname_taken');
    expect((await admin('PUT', `/orgs/${second.id}`, taken)).json.code).toBe('orgname_taken');
    expect((await admin('PUT', `/orgs/${second.id}`, { name: 'New' })).json.data).toMatchObject({
      name: 'New',
      orgname: second.orgname,
    });
  });

  test('have networks that their code may reach; an invalid network is refused by name', async () => {
    const org = await newOrg();
    expect(org.code_allow_networks).toEqual([]);
    const change = { code_allow_networks: ['10.0.0.0/8', 'fd00::1'] };
    expect((await admin('PUT', `/orgs/${org.id}`, change)).json.data).toMatchObject(change);
    expect((await admin('PUT', `/orgs/${org.id}`, { name: 'New' })).json.data).toMatchObject(change);
    expect((await admin('GET', `/orgs/${org.id}`)).json.data).toMatchObject(change);
    for (const wrong of ['10.0.0.0/33', 'example.com', '', '10.0.0.0/8,11.0.0.0/8']) {
      const refused = await admin('PUT', `/orgs/${org.id}`, { code_allow_networks: [wrong] });
      expect(refused).toMatchObject({
        status: 400,
        json: {
          code: 'invalid_parameter',
          param: 'code_allow_networks',
          error: expect.stringMatching(/[^.]\.$/),
        },
      });
    }
    const created = { orgname: newSecret(), name: 'Org', email: 'o@example.com', code_allow_networks: ['x'] };
    expect((await admin('POST', '/orgs', created)).json.param).toBe('code_allow_networks');
  });

  test('are deleted with their memberships', async () => {
    const [org, user] = [await newOrg(), await newUser()];
    await admin('PUT', `/orgs/${org.id}/members/${user.id}`);
    expect((await admin('DELETE', `/orgs/${org.id}`)).status).toBe(204);
    expect(await platform.deps.store.collection(members).count({ org_id: org.id })).toBe(0);
    expect((await admin('GET', `/orgs/${org.id}`)).status).toBe(404);
  });
});

test.each([
  ['users', newUser],
  ['orgs', newOrg],
])('a deletion in /%s that failed midway is completed when it is repeated', async (path, make) => {
  const { id: owner_id } = await make();
  const { store } = platform.deps;
  await store.collection(sources).insertMany([sourceRow({ owner_id }), sourceRow({ owner_id })]);
  const rows = store.collection(states);
  const { remove } = rows;
  rows.remove = async () => {
    rows.remove = remove;
    throw new Error('the store fails');
  };
  const answers = [];
  for (let i = 0; i < 3; i += 1) answers.push((await admin('DELETE', `/${path}/${owner_id}`)).status);
  expect(answers).toEqual([500, 204, 404]);
  expect(await store.collection(sources).count({ owner_id })).toBe(0);
  // Left to the service sources, which completes it.
  const [left, ...others] = await store.collection(sources).list({ where: { status: 'deleting' } });
  expect([left?.owner_id, others]).toEqual(['deleted', []]);
  await store.collection(sources).remove(left!.id);
  expect(await store.collection(apiKeys).count({ user_id: owner_id })).toBe(0);
});

test('dead letters are listed, retried and dropped', async () => {
  const { queue } = platform.deps;
  const ending = new AbortController();
  let attempts = 0;
  const consuming = queue.consume(
    'emitted',
    async ([job]) => {
      attempts += 1;
      throw new PoisonJob(job.id, 'Nobody knows this message.');
    },
    { signal: ending.signal },
  );
  await queue.publish('emitted', { key: 'dc_1', payload: '{"type":"strange"}' });
  const listed = async () => (await admin('GET', '/dead_letters')).json.data;
  const huge = await admin('GET', '/dead_letters?limit=319525665354517588213760');
  expect(huge.status).toBe(200);
  const [letter] = await eventually(async () => {
    const letters = await listed();
    return letters.length === 1 && letters;
  });
  expect(letter).toMatchObject({
    queue: 'emitted',
    key: 'dc_1',
    payload: '{"type":"strange"}',
    reason: expect.stringContaining('Nobody knows this message.'),
  });
  expect((await admin('POST', `/dead_letters/${letter.id}/redrive`, {})).status).toBe(200);
  await eventually(() => attempts === 2);
  const [returned] = await eventually(async () => {
    const letters = await listed();
    return letters.length === 1 && letters;
  });
  expect((await admin('DELETE', `/dead_letters/${returned.id}`)).status).toBe(204);
  expect(await listed()).toEqual([]);
  ending.abort();
  await consuming;
});
