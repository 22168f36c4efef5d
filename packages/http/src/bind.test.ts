import { randomBytes } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import { ALICE, call, key, logged, post, seen } from './bind.fixture.ts';
import { PRINCIPAL_HEADER, signPrincipal } from './principal.ts';

describe('the principal', () => {
  test('reaches the handler signed', async () => {
    expect((await call('GET', '/v1/things/dc_1')).status).toBe(200);
    expect(seen?.principal).toEqual(ALICE);
  });

  const [text, signature] = signPrincipal(ALICE, key).split('.') as [string, string];
  const forged = Buffer.from(JSON.stringify({ ...ALICE, user_id: 'u_bob' })).toString('base64url');
  test.each([
    ['nothing', undefined],
    ['an empty text', ''],
    ['no signature', text],
    ['an empty signature', `${text}.`],
    ['another principal under this signature', `${forged}.${signature}`],
    ['a changed signature', `${text}.${signature[0] === 'A' ? 'B' : 'A'}${signature.slice(1)}`],
    ['a signature with another key', signPrincipal(ALICE, randomBytes(32))],
    ['plain JSON', JSON.stringify(ALICE)],
    ['a signature of ten minutes ago', signPrincipal(ALICE, key, Date.now() - 600_000)],
    ['a signature of ten minutes ahead', signPrincipal(ALICE, key, Date.now() + 600_000)],
  ])('is refused with %s', async (_what, header) => {
    const headers = header === undefined ? {} : { [PRINCIPAL_HEADER]: header };
    const answer = await call('GET', '/v1/things/dc_1', { principal: null, headers });
    expect(answer.status).toBe(401);
    expect(answer.headers['www-authenticate']).toMatch(/^Bearer/);
    expect(seen).toBeUndefined();
  });

  test('is ignored by endpoints that need no key', async () => {
    const answer = await call('GET', '/v1/open', { principal: null });
    expect([answer.status, answer.text]).toEqual([200, '{"data":null}']);
  });
});

describe('an answer', () => {
  test('of a page carries counts and cursors', async () => {
    const { json } = await call('GET', '/v1/things');
    expect(json.page_info).toEqual({
      total_count: 7,
      count: 2,
      start_cursor: Buffer.from('dc_2').toString('base64url'),
      end_cursor: Buffer.from('dc_1').toString('base64url'),
    });
    expect(json.data).toHaveLength(2);
  });

  test.each([
    ['include=id', { id: 'dc_1' }],
    ['include=id,%20name', { id: 'dc_1', name: 'a thing' }],
    ['exclude=name', { id: 'dc_1', size: 3 }],
    ['include=id,name&exclude=id', { name: 'a thing' }],
    ['include=__proto__,constructor,toString,hasOwnProperty', {}],
    ['include=', {}],
    ['exclude=nothing,__proto__', { id: 'dc_1', name: 'a thing', size: 3 }],
  ])('keeps with ?%s only those fields', async (query, expected) => {
    expect((await call('GET', `/v1/things/dc_1?${query}`)).text).toBe(JSON.stringify({ data: expected }));
  });

  test('selects fields of each item, never of page_info, also as the body asks', async () => {
    const { json } = await call('GET', '/v1/things?include=id');
    expect(json.data).toEqual([{ id: 'dc_2' }, { id: 'dc_1' }]);
    expect(Object.keys(json.page_info)).toContain('total_count');
    expect((await post('{"exclude":"size"}')).json.data).toEqual({ id: 'dc_new', name: 'a thing' });
  });

  test('carries the request id of the gateway, or one of its own', async () => {
    const given = await call('GET', '/v1/things/dc_1', { headers: { 'x-request-id': 'req_0123456789' } });
    expect(given.headers['x-request-id']).toBe('req_0123456789');
    const own = await call('GET', '/v1/things/dc_1', { headers: { 'x-request-id': 'evil' } });
    expect(own.headers['x-request-id']).toMatch(/^req_\w{10}$/);
  });

  test('to HEAD has no body; a trailing slash is ignored, letter case in paths is not', async () => {
    const head = await call('HEAD', '/v1/things/dc_1');
    expect([head.status, head.text]).toEqual([200, '']);
    expect((await call('GET', '/v1/things/')).status).toBe(200);
    expect((await call('GET', '/V1/things')).status).toBe(404);
  });

  test('prefers a literal path to a parameter', async () => {
    expect((await call('GET', '/v1/things/mine')).json.data.id).toBe('mine');
  });

  test.each([
    '%zz',
    '%00',
    '..%2f..',
    '__proto__',
    'x'.repeat(3000),
    '%F0%9F%98%80',
    'a%0d%0aX-Injected:%201',
  ])('the odd id %s causes no internal error', async (id) => {
    const answer = await call('GET', `/v1/things/${id}`);
    expect([200, 400, 404]).toContain(answer.status);
    expect(answer.headers['x-injected']).toBeUndefined();
  });
});

describe('a failure', () => {
  test('that is a Problem is sent to the client', async () => {
    const answer = await call('GET', '/v1/failing/conflict');
    expect([answer.status, answer.headers['content-type']]).toEqual([409, 'application/json']);
    expect(answer.json).toEqual({
      error: 'It is taken.',
      code: 'orgname_taken',
      request_id: answer.headers['x-request-id'],
    });
  });

  test('that is internal shows only the id of the request in the log', async () => {
    const answer = await call('GET', '/v1/failing/fatal');
    expect(answer.status).toBe(500);
    expect(Object.keys(answer.json)).toEqual(['error', 'code', 'request_id']);
    expect(answer.text).not.toMatch(/hunter2|at /);
    const line = logged.find(({ event }) => event === 'http.failed');
    expect(line?.fields).toMatchObject({ request_id: answer.json.request_id });
    expect(String(line?.fields.error)).toContain('hunter2');
  });

  test('to find something is a JSON 404', async () => {
    const answer = await call('GET', '/v1/nothing');
    expect([answer.status, answer.json.code]).toEqual([404, 'not_found']);
  });

  test('leaves the service alive', async () => {
    expect((await call('GET', '/v1/things/dc_1')).status).toBe(200);
  });
});

test('an organization that the caller is not a member of is refused by every endpoint that takes org_id', async () => {
  const requests = [
    ['GET', '/v1/things/dc_1', 200],
    ['GET', '/v1/things', 200],
    ['POST', '/v1/things', 200],
    ['DELETE', '/v1/things/dc_1', 204],
  ] as const;
  for (const [method, path, status] of requests) {
    for (const org of ['o_2', '']) {
      const refused = await call(method, `${path}?org_id=${org}`);
      expect([refused.status, refused.json]).toMatchObject([403, { code: 'forbidden', param: 'org_id' }]);
    }
    expect((await call(method, `${path}?org_id=o_1`)).status).toBe(status);
  }
  expect((await post('{"org_id":"o_2"}')).status).toBe(403);
  const asOperator = await call('GET', '/admin/v1/things?org_id=o_2', { principal: { kind: 'operator' } });
  expect(asOperator.status).toBe(200);
});

test('every request has one line in the log', async () => {
  const { headers } = await call('GET', '/v1/things/dc_1');
  const lines = logged.filter(({ event }) => event === 'http.request');
  expect(lines).toEqual([
    {
      event: 'http.request',
      fields: {
        request_id: headers['x-request-id'],
        operation: 'getThing',
        status: 200,
        duration_ms: expect.any(Number),
        user_id: 'u_alice',
      },
    },
  ]);
});

test('operator endpoints refuse every caller but the operator', async () => {
  const asUser = await call('GET', '/admin/v1/things');
  expect([asUser.status, asUser.json.code]).toEqual([404, 'not_found']);
  expect((await call('GET', '/admin/v1/things', { principal: { kind: 'operator' } })).status).toBe(200);
});
