import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { Principal } from '@wellspring/contract/principal';
import type { Log } from '@wellspring/core/log';
import { conflict } from '@wellspring/core/problem';
import { type HttpServer, type RequestOptions, send, startHttpServer } from '@wellspring/testing/http';
import { createRouter, route } from './bind.ts';
import { PRINCIPAL_HEADER, signPrincipal } from './principal.ts';
import {
  addThing,
  dropThing,
  failing,
  getMine,
  getThing,
  listThings,
  open,
  operate,
} from './things.fixture.ts';

const key = randomBytes(32);
const ALICE: Principal = { kind: 'user', user_id: 'u_alice', key_id: 'key_1', org_ids: ['o_1'] };
const logged: { fields: Record<string, unknown>; event: string }[] = [];
const record = (fields: object, event: string) => void logged.push({ fields: { ...fields }, event });
const log: Log = { debug: record, info: record, warn: record, error: record, child: () => log };
let seen: { input: Record<string, unknown>; principal: Principal; params: object } | undefined;

const thing = (id: string) => ({ id, name: 'a thing', size: 3 });
const router = createRouter(
  [
    route(getThing, async (context) => {
      seen = context;
      return thing(context.params.id);
    }),
    route(getMine, async () => thing('mine')),
    route(listThings, async (context) => {
      seen = context;
      return { data: [thing('dc_2'), thing('dc_1')], total_count: 7 };
    }),
    route(addThing, async (context) => {
      seen = context;
      return thing('dc_new');
    }),
    route(dropThing, async () => {}),
    route(failing, async ({ params }) => {
      if (params.how === 'conflict') throw conflict('orgname_taken', 'It is taken.');
      throw new Error('database password is hunter2');
    }),
    route(open, async () => {}),
    route(operate, async () => {}),
  ],
  { principalKeys: [randomBytes(32), key], log },
);

let server: HttpServer;
beforeAll(async () => {
  server = await startHttpServer(router);
});
afterAll(() => server.close());
beforeEach(() => {
  seen = undefined;
  logged.length = 0;
});

const call = (
  method: string,
  path: string,
  { headers = {}, body, principal = ALICE }: RequestOptions & { principal?: Principal | null } = {},
) =>
  send(server.port, method, path, {
    body,
    headers: { ...(principal && { [PRINCIPAL_HEADER]: signPrincipal(principal, key) }), ...headers },
  });

const JSON_TYPE = { 'content-type': 'application/json' };
const post = (body: string | Buffer, headers: Record<string, string> = JSON_TYPE, path = '/v1/things') =>
  call('POST', path, { headers, body });

describe('who asks', () => {
  test('comes signed to the handler', async () => {
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
    ['a changed signature', `${text}.${signature.slice(0, -2)}AA`],
    ['a signature with another key', signPrincipal(ALICE, randomBytes(32))],
    ['plain JSON', JSON.stringify(ALICE)],
    ['a signature of ten minutes ago', signPrincipal(ALICE, key, Date.now() - 600_000)],
    ['a signature of ten minutes ahead', signPrincipal(ALICE, key, Date.now() + 600_000)],
  ])('is not believed with %s', async (_what, header) => {
    const headers = header === undefined ? {} : { [PRINCIPAL_HEADER]: header };
    const answer = await call('GET', '/v1/things/dc_1', { principal: null, headers });
    expect(answer.status).toBe(401);
    expect(answer.headers['www-authenticate']).toMatch(/^Bearer/);
    expect(seen).toBeUndefined();
  });

  test('does not matter where no key is needed', async () => {
    const answer = await call('GET', '/v1/open', { principal: null });
    expect([answer.status, answer.text]).toEqual([200, '{"data":null}']);
  });
});

describe('input', () => {
  test('of a query is converted, of a body it is not; the query wins', async () => {
    await call('GET', '/v1/things?limit=7&active=true&name=5&unknown=1');
    expect(seen?.input).toEqual({ limit: 7, active: true, name: '5' });
    await post('{"name":"body","active":false,"unknown":1}', JSON_TYPE, '/v1/things?name=query');
    expect(seen?.input).toEqual({ name: 'query', active: false });
    expect((await post('{"limit":"7"}')).json).toMatchObject({ code: 'invalid_parameter', param: 'limit' });
  });

  test.each([
    ['malformed JSON', '{"a":}'],
    ['two values', '{}{}'],
    ['an array', '[]'],
    ['a text', '"x"'],
    ['null', 'null'],
    ['a NUL', '\0'],
    ['only spaces', '   '],
    ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ['a lone bracket', '{'],
    ['100,000 levels', '['.repeat(100_000) + ']'.repeat(100_000)],
    ['100,000 levels that are ignored', `{"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`],
    ['100,000 open brackets', '{"x":'.repeat(100_000)],
  ])('that is %s is 400', async (_what, body) => {
    const answer = await post(body);
    expect([answer.status, answer.json.code]).toEqual([400, 'malformed_body']);
    expect(answer.json.request_id).toBe(answer.headers['x-request-id']);
    expect(seen).toBeUndefined();
  });

  test.each([
    ['{"__proto__":{"name":"polluted"}}', {}],
    ['{"constructor":{"prototype":{"name":"x"}},"name":"own"}', { name: 'own' }],
    ['{"extra":{"__proto__":{"a":1}}}', { extra: JSON.parse('{"__proto__":{"a":1}}') }],
    [`{"name":${JSON.stringify('['.repeat(5000))}}`, { name: '['.repeat(5000) }],
    [`{"name":"\\"${'{'.repeat(1000)}"}`, { name: `"${'{'.repeat(1000)}` }],
    ['\ufeff{"name":"with a BOM"}', { name: 'with a BOM' }],
    [
      `{"extra":${'['.repeat(200)}${']'.repeat(200)}}`,
      { extra: JSON.parse('['.repeat(200) + ']'.repeat(200)) },
    ],
  ])('%s is harmless', async (body, expected) => {
    expect((await post(body)).status).toBe(200);
    expect(seen?.input).toEqual(expected);
    expect(({} as { name?: string }).name).toBeUndefined();
  });

  test.each([
    ['text/plain', 415],
    ['application/x-www-form-urlencoded', 415],
    ['multipart/form-data; boundary=x', 415],
    ['', 415],
    ['application/jsonp', 415],
    ['application/json', 200],
    ['application/json; charset=utf-8', 200],
    ['Application/JSON;charset=UTF-8', 200],
    ['application/merge-patch+json', 200],
  ])('of type "%s" is %i', async (type, status) => {
    expect((await post('{"name":"x"}', { 'content-type': type })).status).toBe(status);
  });

  test('may be absent, whatever the type', async () => {
    expect((await call('POST', '/v1/things', { headers: { 'content-type': 'text/plain' } })).status).toBe(
      200,
    );
    expect((await call('DELETE', '/v1/things/dc_1')).status).toBe(204);
  });

  test.each([
    'limit[$gt]=1',
    'limit=1&limit=2',
    'limit=',
    'limit=0',
    'limit=1.5',
    'limit=x',
    'name=a&name=b',
    'active=maybe',
  ])('in the query ?%s is no fault of ours', async (query) => {
    const answer = await call('GET', `/v1/things?${query}`);
    expect([200, 400]).toContain(answer.status);
    if (answer.status === 400) expect(answer.json.param).toMatch(/limit|name|active/);
  });

  test('over the limit is 413, and the connection goes on', async () => {
    const socket = connect(server.port, '127.0.0.1');
    const signed = `${PRINCIPAL_HEADER}: ${signPrincipal(ALICE, key)}\r\n`;
    const size = 7 * 1024 * 1024;
    let received = '';
    const answered = new Promise<void>((resolve, reject) => {
      socket.on('error', reject);
      socket.on('data', (chunk) => {
        received += chunk;
        if (received.includes('"a thing"')) resolve();
      });
    });
    socket.write(
      `POST /v1/things HTTP/1.1\r\nhost: x\r\n${signed}content-type: application/json\r\ncontent-length: ${size}\r\n\r\n`,
    );
    socket.write(Buffer.alloc(size, 'x'));
    socket.write(`GET /v1/things/dc_1 HTTP/1.1\r\nhost: x\r\n${signed}\r\n`);
    await answered;
    socket.destroy();
    expect(received).toMatch(/^HTTP\/1\.1 413 /);
    expect(received).toContain('"payload_too_large"');
  });

  test('over the limit without a content-length is 413', async () => {
    const body = Buffer.alloc(7 * 1024 * 1024, ' ');
    const answer = await post(body, { ...JSON_TYPE, 'transfer-encoding': 'chunked' });
    expect(answer.status).toBe(413);
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

  test('to HEAD has no body; trailing slashes are nothing; letters in paths are', async () => {
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
  ])('to the odd id %s is no fault of ours', async (id) => {
    const answer = await call('GET', `/v1/things/${id}`);
    expect([200, 400, 404]).toContain(answer.status);
    expect(answer.headers['x-injected']).toBeUndefined();
  });
});

describe('a failure', () => {
  test('that is a Problem is told', async () => {
    const answer = await call('GET', '/v1/failing/conflict');
    expect([answer.status, answer.headers['content-type']]).toEqual([409, 'application/json']);
    expect(answer.json).toEqual({
      error: 'It is taken.',
      code: 'orgname_taken',
      request_id: answer.headers['x-request-id'],
    });
  });

  test('of ours shows nothing but the id under which the log has it', async () => {
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
