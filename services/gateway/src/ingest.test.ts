import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import type { HttpRequestRecord } from '@wellspring/contract/messages';
import type { Deps } from '@wellspring/runtime/deps';
import { endpoints } from '@wellspring/store/collections/sources';
import { eventually } from '@wellspring/testing/eventually';
import { startHttpServer } from '@wellspring/testing/http';
import { jobs, platform, received } from './ingest.fixture.ts';
import { createIngest } from './ingest.ts';

test('the verification of the URL of an app hook is answered with its challenge, and runs nothing', async () => {
  const call = async (row: object) => {
    const { id } = await platform.endpoint(row);
    const body = JSON.stringify({ type: 'url_verification', challenge: 'abc' });
    const headers = { 'content-type': 'application/json' };
    const { status, text } = await platform.call('POST', `/e/${id}`, { body, headers });
    return [status, text];
  };
  jobs.length = 0;
  expect(await call({ body_only: true })).toEqual([200, '{"challenge":"abc"}']);
  expect(jobs).toEqual([]);
  expect(await call({})).toEqual([200, '']);
  await eventually(() => jobs.length === 1);
});

describe('a call', () => {
  test('is answered 200 and empty, and its job names the source', async () => {
    const { endpoint, answer, job } = await received();
    expect([answer.status, answer.text, answer.headers['content-length']]).toEqual([200, '', '0']);
    expect(job).toMatchObject({ v: 1, type: 'run', source_id: endpoint.source_id, hop: 0 });
    expect(job.run_id).toMatch(/^run_/);
    expect(job.reply_to).toBeUndefined();
  });

  test.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD'])('by %s runs the source', async (method) => {
    const { answer, request } = await received('', method);
    expect([answer.status, request.method]).toEqual([200, method]);
  });

  test.each([
    ['', '/', ''],
    ['/', '/', ''],
    ['?a=1', '/', 'a=1'],
    ['/a/b%20c?x=1&x=2', '/a/b%20c', 'x=1&x=2'],
    ['/a?b?c=%26', '/a', 'b?c=%26'],
  ])('to %s has its path relative to the endpoint', async (path, expected, query) => {
    const { endpoint, request } = await received(path, 'GET');
    expect([request.path, request.query]).toEqual([expected, query]);
    expect(request.url).toBe(`https://${endpoint.id}.hooks.example.com${path}`);
  });

  test('keeps text byte for byte, and binary bodies as base64', async () => {
    const text = '\ufeff{"ü":  "😀\\u0000\\r\\n"}';
    expect((await received('', 'POST', { body: text })).request).toMatchObject({ text });
    jobs.length = 0;
    const bytes = Buffer.concat([randomBytes(300), Buffer.from([0xff, 0xc0])]);
    const { request } = await received('', 'POST', { body: bytes });
    expect(request.text).toBeUndefined();
    expect(Buffer.from(request.base64!, 'base64').equals(bytes)).toBe(true);
  });

  test('has lower-case headers, and no body headers without a body', async () => {
    const { request } = await received('', 'GET', { headers: { 'X-Custom': 'Value' } });
    expect(request.headers['x-custom']).toBe('Value');
    expect([request.text, request.base64]).toEqual([undefined, undefined]);
  });

  test('has the address of the client, told by a trusted proxy', async () => {
    const forwarded = { 'x-forwarded-for': '1.2.3.4, 203.0.113.9, 10.1.1.1' };
    const { request } = await received('', 'GET', { headers: forwarded });
    expect(request).toMatchObject({ client_ip: '203.0.113.9', headers: forwarded });
    jobs.length = 0;
    expect((await received('', 'GET')).request.client_ip).toBe('127.0.0.1');
  });

  test('has x-forwarded headers without a proxy, too', async () => {
    expect((await received('', 'GET')).request.headers).toMatchObject({
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-proto': 'http',
      'x-forwarded-port': new URL(platform.url).port,
    });
  });

  test('from a webhook of this platform keeps its number of hops', async () => {
    const headers = { 'x-wellspring-hop-count': '4' };
    expect((await received('', 'POST', { headers })).job.hop).toBe(4);
  });

  test('by the endpoint’s own host is the same', async () => {
    const { id } = await platform.endpoint();
    const headers = { host: `${id.toUpperCase()}.hooks.example.com:3000` };
    expect((await platform.call('POST', '/sub?a=1', { headers })).status).toBe(200);
    await eventually(() => jobs.length > 0);
    expect((jobs[0]!.trigger as { request: HttpRequestRecord }).request.path).toBe('/sub');
  });

  test.each(['/health', '/ready'])('to %s on its own host is no health check', async (path) => {
    const { id } = await platform.endpoint();
    const on = async (host: string) => {
      const { status, text } = await platform.call('GET', path, { headers: { host } });
      return [status, text.includes('"status"')];
    };
    expect(await on(`${id}.hooks.example.com`)).toEqual([200, false]);
    await eventually(() => jobs.length > 0);
    expect((jobs[0]!.trigger as { request: HttpRequestRecord }).request.path).toBe(path);
    for (const host of ['127.0.0.1:3000', 'hooks.example.com', 'status.hooks.example.com']) {
      expect(await on(host)).toEqual([200, true]);
    }
  });

  test('over 512 KB is 413 and runs nothing', async () => {
    const { id } = await platform.endpoint();
    const body = Buffer.alloc(512 * 1024 + 1, 'x');
    expect((await platform.call('POST', `/e/${id}`, { body })).status).toBe(413);
    const headers = { 'transfer-encoding': 'chunked' };
    expect((await platform.call('POST', `/e/${id}`, { body, headers })).status).toBe(413);
    expect((await platform.call('POST', `/e/${id}`, { body: body.subarray(1) })).status).toBe(200);
    await eventually(() => jobs.length > 0);
    expect(jobs).toHaveLength(1);
  });

  test('is refused with 503 and retry-after while the calls of its owner fill the memory for intake, and other owners are not', async () => {
    const { id, owner_id } = await platform.endpoint();
    const other = await platform.endpoint();
    const { intake } = platform.deps.memory;
    const release = intake.tryTake(intake.total / 2 - 64 * 1024, owner_id)!;
    const body = Buffer.alloc(256 * 1024, 'x');
    for (const headers of [{}, { 'transfer-encoding': 'chunked' }]) {
      const answer = await platform.call('POST', `/e/${id}`, { body, headers });
      expect([answer.status, answer.headers['retry-after']]).toEqual([503, '1']);
    }
    expect((await platform.call('POST', `/e/${id}`, { body: 'small' })).status).toBe(200);
    expect((await platform.call('POST', `/e/${other.id}`, { body })).status).toBe(200);
    release();
    expect((await platform.call('POST', `/e/${id}`, { body })).status).toBe(200);
    await eventually(() => jobs.length === 3);
    expect(intake.used).toBe(0);
  });

  test('holds memory for the bytes that have arrived, and none after its client has left', async () => {
    const { id } = await platform.endpoint();
    const { intake } = platform.deps.memory;
    const socket = connect(Number(new URL(platform.url).port), '127.0.0.1');
    socket.write(`POST /e/${id} HTTP/1.1\r\nhost: x\r\ncontent-length: 400000\r\n\r\n`);
    socket.write(Buffer.alloc(100_000, 'x'));
    await eventually(() => intake.used >= 100_000);
    expect(intake.used).toBeLessThan(200_000);
    socket.destroy();
    await eventually(() => intake.used === 0);
    expect(jobs).toEqual([]);
  });

  test('whose client leaves while its endpoint is looked up holds nothing', async () => {
    const { intake } = platform.deps.memory;
    const row = await platform.endpoint({ custom_response: true });
    const closed = Promise.withResolvers<void>();
    const call: Deps['call'] = {
      ...platform.deps.call,
      openReplyAddress: () => ({ ...platform.deps.call.openReplyAddress(), close: closed.resolve }),
    };
    const [begun, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const rows = platform.deps.store.collection(endpoints);
    const { get } = rows;
    rows.get = (key) => left.promise.then(() => get(key));
    const ingest = createIngest({ ...platform.deps, call });
    await using server = await startHttpServer((req, res) => {
      res.once('close', left.resolve);
      ingest(req, res);
      begun.resolve();
    });
    const socket = connect(server.port, '127.0.0.1');
    socket.write(`POST /e/${row.id} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n`);
    await begun.promise;
    socket.destroy();
    await closed.promise;
    rows.get = get;
    await eventually(() => intake.used === 0);
    expect(jobs).toEqual([]);
  });

  test('of a browser from elsewhere is allowed', async () => {
    const { id } = await platform.endpoint();
    const headers = { 'access-control-request-headers': 'x-a, x-b', 'access-control-request-method': 'PUT' };
    const answer = await platform.call('OPTIONS', `/e/${id}/x`, { headers });
    expect(answer.status).toBe(204);
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': '*',
      'access-control-allow-methods': 'GET,HEAD,PUT,PATCH,POST,DELETE',
      'access-control-allow-headers': 'x-a, x-b',
    });
    expect((await platform.call('POST', `/e/${id}`)).headers['access-control-allow-origin']).toBe('*');
    await eventually(() => jobs.length > 0);
    expect(jobs).toHaveLength(1);
  });

  test.each([
    '/e/',
    '/e/constructor',
    '/e/__proto__/x',
    '/e/%00',
    `/e/e${'0'.repeat(30)}`,
    `/e/e${'x'.repeat(4000)}`,
  ])('to %s is 404', async (path) => expect((await platform.call('POST', path)).status).toBe(404));

  test('to an endpoint whose owner is over quota is 429 with the time to wait, and runs nothing', async () => {
    const { id } = await platform.user();
    await platform.admin('PUT', `/users/${id}`, { body: { quotas: { daily_invocations_quota: 0 } } });
    const endpoint = await platform.endpoint({ owner_id: id });
    const { status, text, headers } = await platform.call('POST', `/e/${endpoint.id}`);
    expect([status, text]).toEqual([429, 'The daily quota of 0 invocations is used up.']);
    expect(Number(headers['retry-after'])).toBeGreaterThan(0);
    expect(jobs).toEqual([]);
  });

  test('to an inactive endpoint is 404 and runs nothing', async () => {
    const { id } = await platform.endpoint({ active: false });
    for (const method of ['POST', 'OPTIONS'])
      expect((await platform.call(method, `/e/${id}`)).status).toBe(404);
    expect(await platform.deps.queue.depth('runs')).toBe(0);
  });
});

test('calls of one client arrive in their order', async () => {
  const { id } = await platform.endpoint();
  for (let i = 0; i < 20; i += 1) await platform.call('POST', `/e/${id}`, { body: String(i) });
  await eventually(() => jobs.length === 20);
  const bodies = jobs.map(({ trigger }) => (trigger as { request: HttpRequestRecord }).request.text);
  expect(bodies).toEqual(Array.from({ length: 20 }, (_, i) => String(i)));
});

test('a change whose body does not arrive does not make each call read its endpoint', async () => {
  const { id } = await platform.endpoint();
  const { key } = await platform.user();
  const rows = platform.deps.store.collection(endpoints);
  const { get } = rows;
  let reads = 0;
  rows.get = async (key) => {
    reads += 1;
    return get(key);
  };
  const socket = connect(Number(new URL(platform.url).port), '127.0.0.1');
  const lines = ['POST /v1/webhooks HTTP/1.1', 'host: x', `authorization: Bearer ${key}`];
  socket.write([...lines, 'content-length: 5', '', '1'].join('\r\n'));
  for (const _ of [1, 2, 3]) await platform.call('POST', `/e/${id}`);
  expect(reads).toBe(1);
  socket.destroy();
  rows.get = get;
});
