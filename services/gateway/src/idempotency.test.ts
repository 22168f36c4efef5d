import { request } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { createWebhook } from '@wellspring/contract/endpoints/webhooks';
import { newId } from '@wellspring/core/ids';
import { Problem } from '@wellspring/core/problem';
import { route } from '@wellspring/http/bind';
import { idempotencyKeys } from '@wellspring/store/collections/idempotency';
import { eventually } from '@wellspring/testing/eventually';
import { type Platform, startGateway } from './platform.fixture.ts';

let platform: Platform;
/** Behaviour of the service under test; its calls are counted. */
let act: () => Promise<void> = async () => {};
let acted = 0;
/** Part of the answer. */
let description: string | null = null;

beforeAll(async () => {
  platform = await startGateway({
    others: {
      webhooks: () => ({
        name: 'webhooks',
        routes: [
          route(createWebhook, async ({ input, principal }) => {
            acted += 1;
            await act();
            const user_id = principal.kind === 'user' ? principal.user_id : '';
            return {
              id: newId('wh'),
              user_id,
              name: null,
              description,
              url: input.url,
              active: true,
              created_at: 1,
              updated_at: 1,
              secret: 'whsec_test',
            };
          }),
        ],
      }),
    },
  });
});
afterAll(() => platform.stop());
afterEach(() => {
  act = async () => {};
  acted = 0;
  description = null;
});

let keys = 0;
const newKey = () => `key number ${keys++}`;
const post = (
  key: string,
  body: object = { url: 'https://example.com/a' },
  path = '/webhooks',
  user?: string,
) =>
  platform.api('POST', path, {
    body,
    headers: { 'idempotency-key': key },
    ...(user === undefined ? {} : { key: user }),
  });

test('a repeated call gets the response of the first, and is not executed', async () => {
  const key = newKey();
  const [first, second] = [await post(key), await post(key)];
  expect(first.status).toBe(200);
  expect([second.status, second.text, second.headers['content-type']]).toEqual([
    200,
    first.text,
    first.headers['content-type'],
  ]);
  expect([first.headers['idempotent-replayed'], second.headers['idempotent-replayed']]).toEqual([
    undefined,
    'true',
  ]);
  expect(second.headers['x-request-id']).not.toBe(first.headers['x-request-id']);
  expect(acted).toBe(1);
});

test.each([
  ['another body', { url: 'https://example.com/b' }, '/webhooks'],
  ['another query', { url: 'https://example.com/a' }, '/webhooks?name=x'],
  ['another path', { url: 'https://example.com/a' }, '/webhooks/'],
])('the key with %s is 409', async (_what, body, path) => {
  const key = newKey();
  await post(key);
  const answer = await post(key, body, path);
  expect([answer.status, answer.json.code]).toEqual([409, 'idempotency_key_reused']);
  expect(acted).toBe(1);
});

test.each(['query', 'body'])(
  'a repetition in an organization (named in the %s) that its caller has left is refused as the call would be',
  async (place) => {
    const [key, bob] = [newKey(), await platform.user()];
    const body = { orgname: place, name: 'Acme', email: 'ops@example.com' };
    const org = (await platform.admin('POST', '/orgs', { body })).json.data;
    await platform.admin('PUT', `/orgs/${org.id}/members/${bob.id}`);
    const repeat = () =>
      place === 'query'
        ? post(key, undefined, `/webhooks?org_id=${org.id}`, bob.key)
        : post(key, { url: 'https://example.com/a', org_id: org.id }, undefined, bob.key);
    expect([(await repeat()).status, (await repeat()).headers['idempotent-replayed']]).toEqual([200, 'true']);
    await platform.admin('DELETE', `/orgs/${org.id}/members/${bob.id}`);
    const refused = await repeat();
    expect([refused.status, refused.json.param, acted]).toEqual([403, 'org_id', 1]);
  },
);

test('the key of another user is another key', async () => {
  const key = newKey();
  const bob = await platform.user();
  const first = await post(key);
  const second = await post(key, { url: 'https://example.com/b' }, '/webhooks', bob.key);
  expect(second.status).toBe(200);
  expect(second.json.data.id).not.toBe(first.json.data.id);
});

test('of concurrent calls one is executed, and the others wait for it', async () => {
  let finish = () => {};
  const held = new Promise<void>((resolve) => {
    finish = resolve;
  });
  act = () => held;
  const key = newKey();
  const calls = Array.from({ length: 8 }, () => post(key));
  await eventually(() => acted > 0);
  finish();
  const ids = (await Promise.all(calls)).map(({ json }) => json.data.id);
  expect([new Set(ids).size, acted]).toEqual([1, 1]);
});

describe('a client that disconnects during its call', () => {
  let finish = (_: Error | undefined) => {};
  /** @returns the API key of the call */
  const leave = async (key: string) => {
    const user = await platform.user();
    const held = new Promise<Error | undefined>((resolve) => {
      finish = resolve;
    });
    act = async () => {
      const error = await held;
      if (error) throw error;
    };
    const call = request(`${platform.url}/v1/webhooks`, {
      method: 'POST',
      agent: false,
      headers: {
        'content-type': 'application/json',
        'idempotency-key': key,
        authorization: `Bearer ${user.key}`,
      },
    });
    call.on('error', () => {});
    call.end('{"url":"https://example.com/a"}');
    await eventually(() => acted === 1);
    const closed = new Promise((resolve) => call.once('close', resolve));
    call.destroy();
    await closed;
    return user.key;
  };

  test.each([
    ['its answer', 1],
    ['its answer of 200 KB', 200_000],
  ])('does not end it: a repetition waits for %s and gets it', async (_what, length) => {
    description = '.'.repeat(length);
    const key = newKey();
    const repeated = post(key, undefined, undefined, await leave(key));
    finish(undefined);
    const answer = await repeated;
    expect([answer.status, answer.headers['idempotent-replayed'], acted]).toEqual([200, 'true', 1]);
    expect(answer.json.data.description).toHaveLength(length);
  });

  test('frees its key when the call fails', async () => {
    const key = newKey();
    const user = await leave(key);
    finish(new Error('fault'));
    act = async () => {};
    expect([(await post(key, undefined, undefined, user)).status, acted]).toEqual([200, 2]);
  });
});

describe('an answer that is no success', () => {
  test.each([
    [400, new Problem({ status: 400, code: 'invalid_parameter', message: 'Bad.' })],
    [409, new Problem({ status: 409, code: 'orgname_taken', message: 'Taken.' })],
    [500, new Error('fault')],
  ])('of %i is not kept', async (status, error) => {
    const key = newKey();
    act = async () => {
      throw error;
    };
    expect((await post(key)).status).toBe(status);
    act = async () => {};
    expect((await post(key)).status).toBe(200);
    expect(acted).toBe(2);
  });

  test('by its input is not kept', async () => {
    const key = newKey();
    expect((await post(key, {})).status).toBe(400);
    expect((await post(key)).status).toBe(200);
  });
});

test.each([
  ['patch', 200, 1],
  ['removeWhere', 500, 2],
] as const)(
  'a response that could not be stored (%s) is stored later, and delays no other call',
  async (write, status, times) => {
    const rows = platform.deps.store.collection(idempotencyKeys);
    const real = { ...rows };
    const key = newKey();
    if (status === 500) {
      act = async () => {
        throw new Error('fault');
      };
    }
    Object.assign(rows, {
      [write]: async () => {
        throw new Error('the disk is full');
      },
    });
    const first = await post(key);
    expect(first.status).toBe(status);
    // While that lasts, nobody knows what to answer.
    expect((await post(key)).status).toBe(500);
    Object.assign(rows, real);
    act = async () => {};
    const next = await post(key);
    expect([next.status, acted]).toEqual([200, times]);
    if (status === 200) expect(next.text).toBe(first.text);
  },
);

test('a response that could not be stored is stored when the process stops', async () => {
  const failing = await startGateway();
  const rows = failing.deps.store.collection(idempotencyKeys);
  const { patch } = rows;
  rows.patch = () => Promise.reject(new Error('the disk is full'));
  const headers = { 'idempotency-key': newKey() };
  const { status } = await failing.api('POST', '/users/me/api_keys', { body: {}, headers });
  expect(status).toBe(200);
  const stored: boolean[] = [];
  const stopping = failing.stop();
  rows.patch = async (...given) => {
    stored.push(await patch(...given));
    return stored[0]!;
  };
  await stopping;
  expect(stored).toEqual([true]);
});

test('a call whose process was killed is executed by its repetition', async () => {
  const key = newKey();
  await post(key);
  const rows = platform.deps.store.collection(idempotencyKeys);
  const [row] = await rows
    .list({ limit: 1000 })
    .then((all) => all.sort((a, b) => b.created_at_ms - a.created_at_ms));
  await rows.patch(row!.id, { response: null, process: 'one that is gone' });
  expect((await post(key)).status).toBe(200);
  expect(acted).toBe(2);
});

test('a key that is too long is refused; GET ignores the header', async () => {
  expect((await post('x'.repeat(256))).json).toMatchObject({
    code: 'invalid_parameter',
    param: 'Idempotency-Key',
  });
  const headers = { 'idempotency-key': newKey() };
  for (let i = 0; i < 2; i += 1) {
    const answer = await platform.api('GET', '/users/me', { headers });
    expect([answer.status, answer.headers['idempotent-replayed']]).toEqual([200, undefined]);
  }
});

test('the gateway ignores the key of a call of an endpoint', async () => {
  const { id } = await platform.endpoint();
  const headers = { 'idempotency-key': newKey() };
  for (let i = 0; i < 2; i += 1) await platform.call('POST', `/e/${id}`, { headers });
  expect(await platform.deps.queue.depth('runs')).toBe(2);
});

test('a response that contains a secret is stored encrypted', async () => {
  const key = newKey();
  const first = await post(key);
  expect((await post(key)).json.data.secret).toBe('whsec_test');
  const rows = await platform.deps.store.collection(idempotencyKeys).list();
  expect(rows.length).toBeGreaterThan(0);
  expect(first.status).toBe(200);
  expect(JSON.stringify(rows)).not.toContain('whsec_test');
});
