import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { ALICE, call, JSON_TYPE, key, memory, post, seen, server } from './bind.fixture.ts';
import { PRINCIPAL_HEADER, signPrincipal } from './principal.ts';

describe('input', () => {
  test('of a query is converted, of a body it is not; the query wins', async () => {
    await call('GET', '/v1/things?limit=7&active=true&name=5&unknown=1');
    expect(seen?.input).toEqual({ limit: 7, active: true, name: '5' });
    await post('{"name":"body","active":false,"unknown":1}', JSON_TYPE, '/v1/things?name=query');
    expect(seen?.input).toEqual({ name: 'query', active: false });
    expect((await post('{"limit":"7"}')).json).toMatchObject({ code: 'invalid_parameter', param: 'limit' });
  });

  test('that the endpoint does not have is named in a header, also if it is hostile', async () => {
    const ignored = async (path: string, body: object) =>
      (await post(JSON.stringify(body), JSON_TYPE, path)).headers['x-wellspring-ignored'];
    expect(await ignored('/v1/things?nmae=x&limit=1', { activ: true, name: 'x' })).toBe('nmae, activ');
    expect(await ignored('/v1/things?name=x', { limit: 1 })).toBeUndefined();
    expect(await ignored('/v1/things', { 'a\r\nset-cookie: b': 1, '\ud800': 2, ü: 3, __proto__x: 4 })).toBe(
      'a%0D%0Aset-cookie%3A%20b, %EF%BF%BD, %C3%BC, __proto__x',
    );
    const many = Object.fromEntries(Array.from({ length: 1000 }, (_, n) => [`${n}${'ü'.repeat(1000)}`, n]));
    expect((await ignored('/v1/things', many))!.length).toBeLessThan(8000);
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

  test('that is compressed is 415, which says so', async () => {
    const typed = (encoding: string) => ({ ...JSON_TYPE, 'content-encoding': encoding });
    for (const encoding of ['gzip', 'br', 'identity, deflate']) {
      const answer = await post(gzipSync('{"name":"x"}'), typed(encoding));
      expect([answer.status, answer.json.error]).toEqual([415, expect.stringMatching(/content-encoding/)]);
    }
    expect((await post('{"name":"x"}', typed('Identity'))).status).toBe(200);
  });

  test('may be absent with any type', async () => {
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
  ])('the query ?%s causes no internal error', async (query) => {
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

  test('a body of half a million keys is refused before it is parsed', async () => {
    const keys = Array.from({ length: 500_000 }, (_, n) => `"${n.toString(36)}":0`);
    const answer = await post(`{"extra":{${keys.join(',')}}}`);
    expect([answer.status, answer.json]).toEqual([
      400,
      expect.objectContaining({ code: 'malformed_body', error: expect.stringContaining('32 MB') }),
    ]);
  });

  test('counts the memory of its value: one of many empty lists is refused while a text of its length is taken', async () => {
    const { api } = memory;
    const listsOf = (bytes: number) => `{"extra":[${'[],'.repeat(bytes / 3)}0]}`;
    const release = api.tryTake(3_000_000, 'u_alice')!;
    const refused = await post(listsOf(900_000));
    expect([refused.status, refused.json.code]).toEqual([503, 'unavailable']);
    expect((await post(JSON.stringify({ extra: 'x'.repeat(900_000) }))).status).toBe(200);
    release();
    expect((await post(listsOf(900_000))).status).toBe(200);
    // Its value counts more than half of the memory.
    expect((await post(listsOf(1_400_000))).status).toBe(200);
    await eventually(() => api.used === 0);
  });
});
