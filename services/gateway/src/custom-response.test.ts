import { randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { describe, expect, test } from '@jest/globals';
import type { HttpReply, HttpRequestRecord } from '@wellspring/contract/messages';
import { eventually } from '@wellspring/testing/eventually';
import { jobs, platform, replyWith } from './ingest.fixture.ts';

describe('a custom response', () => {
  const answered = async (given: HttpReply) => {
    replyWith(() => given);
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
    [response(103, {}, 'dropped'), 200, ''],
    [response(599, {}, 'odd'), 599, 'odd'],
    [response(200, { 'x-bad\r\n': 'a' }, 'x'), 500, 'The run failed'],
    [response(200, { 'x-bad': 'a\r\nx-injected: 1' }, 'x'), 500, 'The run failed'],
    [response(200, { 'x-bad': ['a', 'b\nx-injected: 1'] }, 'x'), 500, 'The run failed'],
    [response(200, { 'x-injected: 1': 'a' }, 'x'), 500, 'The run failed'],
    [response(200, { '': 'a' }, 'x'), 500, 'The run failed'],
    [response(204, { 'x-bad': 'a\r\nx-injected: 1' }, ''), 500, 'The run failed'],
    [response(304, { 'x-bad': 'a\u0100' }, ''), 500, 'The run failed'],
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

  test('gets an opaque origin unless it has its own, with any policy of its own', async () => {
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

  test('is waited for within the memory for intake, until its caller has left', async () => {
    const { intake } = platform.deps.memory;
    const { id } = await platform.endpoint({ custom_response: true });
    const { port } = new URL(platform.url);
    const caller = request({ host: '127.0.0.1', port, path: `/e/${id}`, agent: false });
    caller.on('error', () => {}).end();
    // The job is durable, and the runner never answers.
    await eventually(() => jobs.length === 1);
    await eventually(() => intake.used === 8 * 1024);
    caller.destroy();
    await eventually(() => intake.used === 0);
  });

  test('goes to the caller', async () => {
    replyWith((job) => {
      const { request } = job.trigger as { request: HttpRequestRecord };
      return response(200, {}, `answer to ${request.text}`);
    });
    const { id } = await platform.endpoint({ custom_response: true });
    const calls = Array.from({ length: 20 }, (_, i) =>
      platform.call('POST', `/e/${id}`, { body: `call ${i}` }),
    );
    const texts = (await Promise.all(calls)).map(({ text }) => text);
    expect(texts).toEqual(texts.map((_, i) => `answer to call ${i}`));
  });
});
