import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { HttpReply, HttpRequestRecord, RunJob } from '@wellspring/contract/messages';
import { Unavailable } from '@wellspring/core/unavailable';
import { eventually } from '@wellspring/testing/eventually';
import { type CallOptions, type Platform, startGateway } from './platform.fixture.ts';

let platform: Platform;
/** Jobs in the order in which the runner of this test got them. */
const jobs: RunJob[] = [];
let reply: ((job: RunJob) => HttpReply) | undefined;

beforeAll(async () => {
  platform = await startGateway({
    config: { trustProxy: ['127.0.0.1/32', '10.0.0.0/8'], endpointDomain: 'hooks.example.com' },
    others: {
      runner: ({ queue, call }) => ({
        name: 'runner',
        workers: [
          {
            name: 'runs',
            run: (signal) =>
              queue.consume(
                'runs',
                async ([job]) => {
                  const message = JSON.parse(job.payload) as RunJob;
                  jobs.push(message);
                  if (message.reply_to && reply) call.reply(message.reply_to, reply(message));
                },
                { concurrency: 8, signal },
              ),
          },
        ],
      }),
    },
  });
});
afterAll(() => platform.stop());
afterEach(() => {
  jobs.length = 0;
  reply = undefined;
});

/** Calls a new endpoint; gives the answer and what the runner was told. */
async function received(path = '', method = 'POST', options: CallOptions = {}) {
  const endpoint = await platform.endpoint();
  const answer = await platform.call(method, `/e/${endpoint.id}${path}`, options);
  await eventually(() => jobs.length > 0);
  const job = jobs[0]!;
  const { request } = job.trigger as { request: HttpRequestRecord };
  return { endpoint, answer, job, request };
}

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
    expect((await received('', 'GET', { headers: forwarded })).request.client_ip).toBe('203.0.113.9');
    jobs.length = 0;
    expect((await received('', 'GET')).request.client_ip).toBe('127.0.0.1');
  });

  test('of a webhook of ours counts its hops', async () => {
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

  test('to an inactive endpoint is 404 and runs nothing', async () => {
    const { id } = await platform.endpoint({ active: false });
    for (const method of ['POST', 'OPTIONS'])
      expect((await platform.call(method, `/e/${id}`)).status).toBe(404);
    expect(await platform.deps.queue.depth('runs')).toBe(0);
  });
});

describe('a multipart body', () => {
  const multipart = (...parts: string[]) => ({
    body: `${parts.map((part) => `--xyz\r\nContent-Disposition: form-data; ${part}\r\n`).join('')}--xyz--\r\n`,
    headers: { 'content-type': 'multipart/form-data; boundary=xyz' },
  });

  test('becomes an object; a file a signed address of its bytes', async () => {
    const { request } = await received(
      '',
      'POST',
      multipart(
        'name="title"\r\n\r\nhéllo',
        'name="tag"\r\n\r\na',
        'name="tag"\r\n\r\nb',
        'name="__proto__"\r\n\r\nc',
        'name="doc"; filename="a ü.html"\r\nContent-Type: text/html\r\n\r\n<script>alert(1)</script>',
      ),
    );
    const { doc, ...fields } = request.multipart as {
      doc: { url: string; filename: string; mimetype: string };
    };
    expect(JSON.stringify(fields)).toBe('{"title":"héllo","tag":["a","b"],"__proto__":"c"}');
    expect(doc).toMatchObject({ filename: 'a ü.html', mimetype: 'text/html' });
    const { pathname, search } = new URL(doc.url);
    const file = await platform.call('GET', pathname + search);
    expect([file.status, file.text]).toEqual([200, '<script>alert(1)</script>']);
    // What a stranger sent is no page of this origin.
    expect(file.headers['content-type']).toBe('application/octet-stream');
    expect(file.headers['content-disposition']).toMatch(/^attachment/);
    const until = new URLSearchParams(search).get('until')!;
    for (const forged of [
      pathname,
      `${pathname}?until=${until}`,
      `${pathname}${search.replace(until, String(Number(until) + 1))}`,
      `${pathname}${search.slice(0, -2)}AA`,
      `/blobs/..%2f..%2fsecret.key${search}`,
    ]) {
      expect((await platform.call('GET', forged)).status).toBe(404);
    }
  });

  test('whose files cannot be kept is refused, and runs nothing', async () => {
    const { blob } = platform.deps;
    const { put } = blob;
    blob.put = async () => {
      throw new Error('the disk is full');
    };
    const endpoint = await platform.endpoint();
    const file = (name: string) => `name="${name}"; filename="a"\r\n\r\n1`;
    const answer = await platform.call('POST', `/e/${endpoint.id}`, multipart(file('a'), file('b')));
    blob.put = put;
    expect(answer.status).toBe(500);
    expect(jobs).toEqual([]);
  });

  test('while the blob store does not answer, 503 with Retry-After', async () => {
    const { blob } = platform.deps;
    const { put } = blob;
    blob.put = async () => {
      throw new Unavailable('the server does not answer');
    };
    const endpoint = await platform.endpoint();
    const body = multipart('name="a"; filename="a"\r\n\r\n1');
    const answer = await platform.call('POST', `/e/${endpoint.id}`, body);
    blob.put = put;
    expect([answer.status, answer.headers['retry-after']]).toEqual([503, '1']);
    expect(jobs).toEqual([]);
  });

  test('that is broken is text', async () => {
    const { request } = await received('', 'POST', {
      body: '--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\nb',
      headers: { 'content-type': 'multipart/form-data; boundary=xyz' },
    });
    expect(request.multipart).toBeUndefined();
    expect(request.text).toContain('name="a"');
  });
});

describe('a custom response', () => {
  const answered = async (given: HttpReply) => {
    reply = () => given;
    const { id } = await platform.endpoint({ custom_response: true });
    return platform.call('POST', `/e/${id}`);
  };
  const response = (
    status: number,
    headers: Record<string, string | string[]>,
    body: Buffer | string,
  ): HttpReply => ({
    kind: 'response',
    status,
    headers,
    body: Buffer.from(body).toString('base64'),
  });

  test('is given byte for byte, with its headers, without those of the connection', async () => {
    const bytes = randomBytes(1000);
    const headers = {
      'x-custom': 'yes',
      'content-length': '3',
      'Transfer-Encoding': 'chunked',
      connection: 'upgrade',
    };
    const answer = await answered(response(201, headers, bytes));
    expect([answer.status, answer.body.equals(bytes)]).toEqual([201, true]);
    expect(answer.headers).toMatchObject({
      'x-custom': 'yes',
      'content-length': '1000',
    });
  });

  test.each([
    [response(204, {}, 'dropped'), 204, ''],
    [response(304, {}, 'dropped'), 304, ''],
    [response(103, {}, 'final'), 200, 'final'],
    [response(599, {}, 'odd'), 599, 'odd'],
    [response(200, { 'x-bad\r\n': 'a' }, 'x'), 500, 'The run failed'],
    [response(200, { 'x-bad': 'a\r\nx-injected: 1' }, 'x'), 500, 'The run failed'],
    [response(200, { 'x-bad': ['a', 'b\nx-injected: 1'] }, 'x'), 500, 'The run failed'],
    [response(200, { 'x-injected: 1': 'a' }, 'x'), 500, 'The run failed'],
    [response(200, { '': 'a' }, 'x'), 500, 'The run failed'],
    [response(200, { 'x-large': 'a'.repeat(40_000) }, 'x'), 500, 'The run failed'],
    [{ kind: 'none' } as const, 400, 'No response'],
    [{ kind: 'failed' } as const, 500, 'The run failed'],
    [{ kind: 'refused' } as const, 404, 'Not Found'],
  ])('%j is answered %i', async (given, status, text) => {
    const answer = await answered(given);
    expect([answer.status, answer.text]).toEqual([status, text]);
    expect(answer.headers['x-injected']).toBeUndefined();
  });

  test('sets nothing for the whole origin of the API; on its own host it sets that for itself', async () => {
    const headers = {
      'Set-Cookie': 'session=forged; Path=/',
      'Clear-Site-Data': '"*"',
      'Alt-Svc': 'h2="elsewhere.example:443"',
      'Strict-Transport-Security': 'max-age=31536000; includeSubDomains',
      'Access-Control-Allow-Origin': 'https://elsewhere.example',
      'Access-Control-Allow-Credentials': 'true',
      'Service-Worker-Allowed': '/',
      'X-Accel-Redirect': '/etc/passwd',
      Date: 'yesterday',
      'X-Custom': 'kept',
    };
    const shared = await answered(response(200, headers, 'x'));
    expect(shared.status).toBe(200);
    for (const name of ['set-cookie', 'clear-site-data', 'alt-svc', 'strict-transport-security']) {
      expect([name, shared.headers[name]]).toEqual([name, undefined]);
    }
    expect(shared.headers).toMatchObject({
      'x-custom': 'kept',
      'access-control-allow-origin': 'https://elsewhere.example',
      date: expect.stringContaining('GMT'),
    });
    expect(shared.headers['access-control-allow-credentials']).toBeUndefined();

    const { id } = await platform.endpoint({ custom_response: true });
    const own = await platform.call('GET', '/', { headers: { host: `${id}.hooks.example.com:3000` } });
    expect(own.headers).toMatchObject({
      'set-cookie': ['session=forged; Path=/'],
      'strict-transport-security': headers['Strict-Transport-Security'],
      'access-control-allow-credentials': 'true',
      'service-worker-allowed': '/',
      'x-custom': 'kept',
    });
    for (const name of ['clear-site-data', 'alt-svc', 'x-accel-redirect']) {
      expect([name, own.headers[name]]).toEqual([name, undefined]);
    }
  });

  test('is shown by browsers in an origin of its own, unless it has one, whatever policy it names', async () => {
    const page = { 'content-type': 'text/html', 'Content-Security-Policy': "img-src 'none'" };
    const shared = await answered(response(200, page, '<script src="/x.js"></script>'));
    const policy = String(shared.headers['content-security-policy']);
    expect(policy).toMatch(/img-src 'none', sandbox .*allow-scripts/);
    expect(policy).not.toContain('allow-same-origin');

    const { id } = await platform.endpoint({ custom_response: true });
    const headers = { host: `${id}.hooks.example.com` };
    const apart = await platform.call('GET', '/', { headers });
    expect([apart.status, apart.headers['content-security-policy']]).toEqual([200, "img-src 'none'"]);
  });

  test('goes to the caller', async () => {
    reply = (job) => {
      const { request } = job.trigger as { request: HttpRequestRecord };
      return response(200, {}, `answer to ${request.text}`);
    };
    const { id } = await platform.endpoint({ custom_response: true });
    const calls = Array.from({ length: 20 }, (_, i) =>
      platform.call('POST', `/e/${id}`, { body: `call ${i}` }),
    );
    const texts = (await Promise.all(calls)).map(({ text }) => text);
    expect(texts).toEqual(texts.map((_, i) => `answer to call ${i}`));
  });
});

test('calls of one client arrive in their order', async () => {
  const { id } = await platform.endpoint();
  for (let i = 0; i < 20; i += 1) await platform.call('POST', `/e/${id}`, { body: String(i) });
  await eventually(() => jobs.length === 20);
  const bodies = jobs.map(({ trigger }) => (trigger as { request: HttpRequestRecord }).request.text);
  expect(bodies).toEqual(Array.from({ length: 20 }, (_, i) => String(i)));
});
