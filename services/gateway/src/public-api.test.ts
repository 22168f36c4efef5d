import { once } from 'node:events';
import { readdir, readlink } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { Endpoint } from '@wellspring/contract/endpoint';
import { endpoints } from '@wellspring/contract/endpoints/all';
import type { Principal } from '@wellspring/contract/principal';
import { createTokenBuckets } from '@wellspring/core/token-buckets';
import { PRINCIPAL_HEADER, signPrincipal } from '@wellspring/http/principal';
import { eventually } from '@wellspring/testing/eventually';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { forSuite } from '@wellspring/testing/lifetimes';
import { startGateway } from './platform.fixture.ts';
import { createPublicApi } from './public-api.ts';

const platform = forSuite(startGateway);
let alice: { id: string; key: string };
beforeAll(async () => {
  alice = await platform.user();
});

describe('without a valid key', () => {
  const declared = Object.values(endpoints) as Endpoint[];
  const concrete = ({ path }: Endpoint) => path.replace(/\{\w+\}/g, 'dc_0000000000');

  test.each(
    declared
      .filter(({ listener, authenticated }) => listener === 'public' && authenticated)
      .map((one) => [one.operationId, one] as const),
  )('%s is 401', async (_name, endpoint) => {
    for (const key of [null, `${alice.key.slice(0, -3)}zzz`]) {
      const answer = await platform.api(endpoint.method, concrete(endpoint), { key, body: {} });
      expect([answer.status, answer.json.code]).toEqual([401, 'unauthorized']);
      expect(answer.headers['www-authenticate']).toMatch(/^Bearer/);
    }
  });

  test.each(
    declared
      .filter(({ listener, authenticated }) => listener === 'operator' && authenticated)
      .map((one) => [one.operationId, one] as const),
  )('%s of the operator is 401, and not there for the public', async (_name, endpoint) => {
    for (const key of [null, alice.key]) {
      expect((await platform.admin(endpoint.method, concrete(endpoint), { key, body: {} })).status).toBe(401);
    }
    const path = `/admin/v1${concrete(endpoint)}`;
    const key = platform.deps.config.adminKey;
    expect((await platform.call(endpoint.method, path, { key, body: {} })).status).toBe(404);
  });

  const header = (key: string) => [
    'Bearer',
    'Bearer ',
    'Bearer ""',
    key,
    `Token ${key}`,
    `Basic ${Buffer.from(`${key}:`).toString('base64')}`,
    `Bearer ${key}x`,
    `Bearer ${key.slice(0, -1)}`,
    `Bearer ${key} ${key}`,
    `Bearer ${'a'.repeat(6000)}`,
    'Bearer {"$gt":""}',
    `Bearer ' OR '1'='1`,
  ];
  test('headers of any other form are refused', async () => {
    for (const authorization of header(alice.key)) {
      const answer = await platform.api('GET', '/users/me', { key: null, headers: { authorization } });
      expect([authorization, answer.status]).toEqual([authorization, 401]);
    }
    expect((await platform.api('GET', `/users/me?api_key=${alice.key}`, { key: null })).status).toBe(401);
  });

  test('a principal header that a client sends is dropped', async () => {
    const principal: Principal = { kind: 'user', user_id: alice.id, key_id: 'key_1', org_ids: [] };
    const signed = signPrincipal(principal, platform.deps.seal.keysFor('principal')[0]!);
    const headers = { [PRINCIPAL_HEADER]: signed };
    expect((await platform.api('GET', '/users/me', { key: null, headers })).status).toBe(401);
    const bob = await platform.user();
    const answer = await platform.api('GET', '/users/me', { key: bob.key, headers });
    expect(answer.json.data.id).toBe(bob.id);
  });
});

describe('with a key', () => {
  test('its user is answered; the scheme is read in any case', async () => {
    const answer = await platform.api('GET', '/users/me', { key: alice.key });
    expect(answer.json.data.id).toBe(alice.id);
    const headers = { authorization: `bearer ${alice.key}` };
    expect((await platform.api('GET', '/users/me', { key: null, headers })).status).toBe(200);
  });

  test('that was revoked, requests are refused at once', async () => {
    const made = (await platform.api('POST', '/users/me/api_keys', { key: alice.key })).json.data;
    expect((await platform.api('GET', '/users/me', { key: made.api_key })).status).toBe(200);
    expect((await platform.api('DELETE', `/users/me/api_keys/${made.id}`, { key: alice.key })).status).toBe(
      204,
    );
    expect((await platform.api('GET', '/users/me', { key: made.api_key })).status).toBe(401);
  });

  test('that belongs to another user, it cannot be revoked', async () => {
    const bob = await platform.user();
    const made = (await platform.api('POST', '/users/me/api_keys', { key: alice.key })).json.data;
    expect((await platform.api('DELETE', `/users/me/api_keys/${made.id}`, { key: bob.key })).status).toBe(
      404,
    );
    expect((await platform.api('GET', '/users/me', { key: made.api_key })).status).toBe(200);
  });

  test.each(['/nothing', '/users', '/sources/a/b/c', '/v1/users/me', '', '/'])(
    'the unknown path %s is 404',
    async (path) => {
      const answer = await platform.api('GET', path, { key: alice.key });
      expect([answer.status, answer.json.code, answer.headers['x-request-id']]).toEqual([
        404,
        'not_found',
        answer.json.request_id,
      ]);
    },
  );

  test.each([
    ['PATCH', '/users/me', 'GET, HEAD'],
    ['DELETE', '/users/me', 'GET, HEAD'],
    ['PATCH', '/sources/dc_1', 'GET, PUT, DELETE, HEAD'],
    ['PATCH', '/components', 'POST'],
    ['PUT', '/subscriptions/', 'POST, DELETE, GET, HEAD'],
    ['OPTIONS', '/users/me', 'GET, HEAD'],
  ])('%s %s is 405 and tells %s', async (method, path, allow) => {
    const answer = await platform.api(method, path, { key: alice.key });
    expect([answer.status, answer.json.code]).toEqual([405, 'method_not_allowed']);
    expect(answer.headers.allow!.split(', ').sort()).toEqual(allow.split(', ').sort());
  });
});

test('every response has a new request id, never that of the client', async () => {
  const ids = await Promise.all(
    Array.from({ length: 5 }, async () => {
      const headers = { 'x-request-id': 'req_0123456789' };
      return (await platform.api('GET', '/users/me', { headers })).headers['x-request-id'];
    }),
  );
  expect(new Set(ids).size).toBe(5);
  for (const id of ids) expect(id).toMatch(/^req_[0-9A-Za-z]{10}$/);
  expect(ids).not.toContain('req_0123456789');
});

test('a key over its rate gets 429 with Retry-After, and other keys are not delayed', async () => {
  // On a clock that stands still.
  const buckets = createTokenBuckets(createFakeClock());
  await using limited = await startGateway({ config: { apiRate: 5 }, buckets });
  const bob = await limited.user();
  const answers = await Promise.all(Array.from({ length: 30 }, () => limited.api('GET', '/users/me')));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
  const refused = answers.filter(({ status }) => status === 429);
  expect(refused).toHaveLength(20);
  for (const { headers, json } of refused) {
    expect(headers['retry-after']).toMatch(/^[1-9]\d*$/);
    expect(json.code).toBe('too_many_requests');
  }
  expect((await limited.api('GET', '/users/me', { key: bob.key })).status).toBe(200);
});

describe('documents', () => {
  test('are there without a key, and list every public endpoint', async () => {
    const answer = await platform.api('GET', '/openapi.json', { key: null });
    expect(answer.status).toBe(200);
    const operations = Object.values(
      answer.json.paths as Record<string, Record<string, { operationId: string }>>,
    )
      .flatMap((methods) => Object.values(methods))
      .map(({ operationId }) => operationId);
    const declared = (Object.values(endpoints) as Endpoint[]).filter(({ listener }) => listener === 'public');
    expect(operations.sort()).toEqual(declared.map(({ operationId }) => operationId).sort());
  });

  test('are the page to which the root redirects a browser', async () => {
    const page = await platform.call('GET', '/', { headers: { accept: 'text/html,*/*' } });
    expect([page.status, page.headers.location]).toEqual([302, '/docs']);
    expect((await platform.call('GET', '/')).status).toBe(404);
  });

  test('are shown on a page that loads nothing from elsewhere', async () => {
    const page = await platform.call('GET', '/docs');
    expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8']);
    expect(page.headers['content-security-policy']).toContain("default-src 'none'");
    const addresses = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address!);
    expect(addresses.length).toBeGreaterThan(2);
    for (const address of addresses) {
      expect(address).toMatch(/^\/docs\//);
      expect((await platform.call('GET', address)).status).toBe(200);
    }
    for (const path of [
      '/docs/../package.json',
      '/docs/..%2fpackage.json',
      '/docs/package.json',
      '/docs/%2e%2e/package.json',
      '/docs/__proto__',
    ]) {
      const { status, headers, json } = await platform.call('GET', path);
      expect([status, json.code, json.request_id]).toEqual([404, 'not_found', headers['x-request-id']]);
    }
  });

  test('leave no file open when a client disconnects in the middle', async () => {
    const file = 'swagger-ui-bundle.js';
    const isOpen = async () => {
      const all = (await readdir('/proc/self/fd')).map((fd) =>
        readlink(`/proc/self/fd/${fd}`).catch(() => ''),
      );
      return (await Promise.all(all)).some((path) => path.endsWith(file));
    };
    const socket = connect(Number(new URL(platform.url).port), '127.0.0.1').pause();
    // More than the kernel buffers.
    socket.write(`GET /docs/${file} HTTP/1.1\r\nhost: x\r\n\r\n`.repeat(12));
    await eventually(isOpen);
    socket.destroy();
    await eventually(async () => !(await isOpen()));
  });
});

test('a user reads two lists at a time: further ones wait, and nothing else does', async () => {
  const bob = await platform.user();
  const open: { user: string | undefined; res: ServerResponse }[] = [];
  const api = createPublicApi(
    platform.deps,
    Object.values(endpoints) as Endpoint[],
    () => (req, res) => {
      if (req.url === '/v1/users/me') res.end();
      else open.push({ user: req.headers.authorization, res });
    },
    { handle: async (_req, _res, _caller, work) => work() },
  );
  const server = createServer(api).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const get = ({ key }: { key: string }, path = '/users/me/webhooks') =>
    fetch(`http://127.0.0.1:${port}/v1${path}`, { headers: { authorization: `Bearer ${key}` } });
  const openOf = ({ key }: { key: string }) => open.filter(({ user }) => user === `Bearer ${key}`);
  const lists = [get(alice), get(alice), get(alice)];
  await eventually(() => openOf(alice).length === 2);
  await get(alice, '/users/me');
  const other = get(bob);
  await eventually(() => openOf(bob).length === 1);
  expect(openOf(alice)).toHaveLength(2);
  // The end of the answer may wait for its reader.
  open[0]!.res.write('[');
  await eventually(() => openOf(alice).length === 3);
  for (const { res } of open) res.end();
  await Promise.all([...lists, other]);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
