import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { get, type IncomingMessage, type RequestListener, request } from 'node:http';
import { beforeEach, expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { createMemory } from '@wellspring/core/memory';
import { eventually } from '@wellspring/testing/eventually';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { startHttpServer } from '@wellspring/testing/http';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { PRINCIPAL_HEADER, signPrincipal } from './principal.ts';
import { createProxy, type ProxyOptions } from './proxy.ts';

const closing = closeAfterEach();
let draining: AbortController;
beforeEach(() => {
  draining = new AbortController();
});

const serve = async (listener: RequestListener) => closing(await startHttpServer(listener)).url;

/** An address without a listener. */
async function nowhere(): Promise<string> {
  await using server = await startHttpServer(() => {});
  return server.url;
}

const memory = createMemory(1);
const key = randomBytes(32);
const ofUser = () => ({
  [PRINCIPAL_HEADER]: signPrincipal({ kind: 'user', user_id: 'u_1', key_id: 'key_1', org_ids: [] }, key),
});
const openProxy = (options: Pick<Partial<ProxyOptions>, 'clock' | 'now'> = {}) =>
  closing(
    createProxy({
      log: silentLog,
      clock: systemClock,
      draining: draining.signal,
      principalKeys: [key],
      memory,
      ...options,
    }),
  );
const proxyTo = (origins: string[], options = {}) => serve(openProxy(options).to(origins));

const echo: RequestListener = async (req, res) => {
  const body = Buffer.concat(await req.toArray()).toString();
  const { method, url, headers } = req;
  res.writeHead(201, { 'content-type': 'application/json', 'x-own': 'yes' });
  res.end(JSON.stringify({ method, url, body, principal: headers['x-wellspring-principal'] }));
};

test('a request and its answer arrive as they are', async () => {
  const url = await proxyTo([await serve(echo)]);
  const answer = await fetch(`${url}/v1/x?a=1&a=%20`, {
    method: 'POST',
    body: 'ünï',
    headers: { 'x-wellspring-principal': 'signed' },
  });
  expect([answer.status, answer.headers.get('x-own')]).toEqual([201, 'yes']);
  expect(await answer.json()).toEqual({
    method: 'POST',
    url: '/v1/x?a=1&a=%20',
    body: 'ünï',
    principal: 'signed',
  });
});

test('a GET with a body takes nothing of the request that follows on its connection', async () => {
  const url = await proxyTo([await serve(echo)]);
  const { port } = new URL(url);
  const asked = request({ host: '127.0.0.1', port, headers: { 'content-length': '30' } }).end('x'.repeat(30));
  const [answer] = (await once(asked, 'response')) as [IncomingMessage];
  expect(JSON.parse(Buffer.concat(await answer.toArray()).toString()).body).toBe('');
  const next = await fetch(`${url}/v1/next`, { headers: { 'x-wellspring-principal': 'of another user' } });
  expect(await next.json()).toMatchObject({ method: 'GET', url: '/v1/next', principal: 'of another user' });
});

test.each(['/v1/x/../../admin/v1/y', '/v1/..\\..\\admin\\v1\\y', '/v1/%2e%2e/y', '//elsewhere/y'])(
  'the path %s is forwarded unchanged',
  async (path) => {
    const { port } = new URL(await proxyTo([await serve(echo)]));
    const [answer] = (await once(get({ host: '127.0.0.1', port, path }), 'response')) as [IncomingMessage];
    expect(JSON.parse(Buffer.concat(await answer.toArray()).toString()).url).toBe(path);
  },
);

test('several origins take turns, and an unreachable one is skipped, also for a POST', async () => {
  const heard = [0, 0];
  const count =
    (n: 0 | 1): RequestListener =>
    (req, res) => {
      heard[n] = heard[n]! + 1;
      req.resume();
      res.end();
    };
  const url = await proxyTo([await serve(count(0)), await nowhere(), await serve(count(1))]);
  for (let i = 0; i < 12; i++) expect((await fetch(url, { method: 'POST', body: '{}' })).status).toBe(200);
  expect(heard[0]! + heard[1]!).toBe(12);
  expect(Math.min(...heard)).toBeGreaterThanOrEqual(4);
});

test('a service that cannot be reached in time is a 503 with the id of the request', async () => {
  const clock = createFakeClock();
  const url = await proxyTo([await nowhere()], { clock, now: clock.now });
  let answer: Response | undefined;
  fetch(url, { headers: { 'x-request-id': 'req_1' } }).then((given) => {
    answer = given;
  });
  await eventually(async () => {
    await clock.advance(1_000);
    return answer !== undefined;
  });
  expect([answer!.status, await answer!.json()]).toEqual([
    503,
    { error: expect.any(String), code: 'unavailable', request_id: 'req_1' },
  ]);
});

test('the wall clock does not decide how long a service is waited for', async () => {
  let hours = 0;
  const begun = Promise.withResolvers<void>();
  const clock = {
    now: () => ++hours * 3_600_000,
    sleep(ms: number, signal?: AbortSignal) {
      // The pause before the second attempt.
      if (ms < 1_000) begun.resolve();
      return systemClock.sleep(ms, signal);
    },
  };
  const { port, close } = await startHttpServer(() => {});
  await close();
  const url = await proxyTo([`http://127.0.0.1:${port}`], { clock });
  const answered = fetch(url);
  await begun.promise;
  closing(await startHttpServer((_req, res) => res.end('back'), port));
  expect(await (await answered).text()).toBe('back');
});

test('a request that a service may have received is repeated only if it is a GET', async () => {
  let heard = 0;
  const dying: RequestListener = (req) => {
    heard += 1;
    req.socket.destroy();
  };
  const url = await proxyTo([await serve(dying), await serve((_req, res) => res.end('fine'))]);
  for (let i = 0; i < 4; i++) expect(await (await fetch(url)).text()).toBe('fine');
  heard = 0;
  const statuses = [];
  for (let i = 0; i < 4; i++) statuses.push((await fetch(url, { method: 'POST', body: '{}' })).status);
  expect(statuses.sort()).toEqual([200, 200, 503, 503]);
  expect(heard).toBe(2);
});

test('a service that accepts a GET and does not answer is skipped after a time', async () => {
  const clock = createFakeClock();
  const options = { clock, now: clock.now };
  let asked = 0;
  const silent = await serve(() => {
    asked += 1;
  });
  const url = await proxyTo([silent, await serve(echo)], options);
  const answers = [1, 2].map(() => fetch(`${url}/v1/x`));
  await eventually(() => asked === 1);
  await clock.advance(30_000);
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([201, 201]);
  const alone = fetch(await proxyTo([silent], options));
  await eventually(() => asked === 2);
  await clock.advance(30_000);
  expect((await alone).status).toBe(503);
});

test('a stream is forwarded piece by piece, and ends when the process drains', async () => {
  const url = await proxyTo([
    await serve((_req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.write('data: 1\n\n');
    }),
  ]);
  const res = await new Promise<IncomingMessage>((resolve) => get(url, { agent: false }, resolve));
  expect(String((await once(res, 'data'))[0])).toBe('data: 1\n\n');
  const ended = once(res, 'end');
  draining.abort();
  await ended;
});

test('a response that the service aborts is aborted for the client', async () => {
  const url = await proxyTo([
    await serve((_req, res) => {
      res.writeHead(200, { 'content-length': '100' });
      res.write('half of it', () => res.destroy());
    }),
  ]);
  const answer = await fetch(url);
  await expect(answer.text()).rejects.toThrow();
});

test('a POST goes on when its client disconnects', async () => {
  const [begun, answered] = [Promise.withResolvers<() => void>(), Promise.withResolvers<boolean>()];
  const origin = await serve((_req, res) => {
    res.once('close', () => answered.resolve(res.writableFinished));
    begun.resolve(() => res.end('done'));
  });
  const proxy = openProxy();
  const ends: unknown[] = [];
  const url = await serve((req, res) => {
    const { end } = res;
    res.end = ((...args: Parameters<typeof end>) => {
      ends.push(`${res.statusCode} ${args[0]}`);
      return end.apply(res, args);
    }) as typeof res.end;
    res.once('close', () => ends.push('closed'));
    proxy.to([origin])(req, res);
  });
  const asked = request(url, { method: 'POST', agent: false });
  asked.on('error', () => {});
  asked.end();
  const finish = await begun.promise;
  asked.destroy();
  await eventually(() => ends.length === 1);
  finish();
  expect(await answered.promise).toBe(true);
  await eventually(() => ends.length === 2);
  expect(ends).toEqual(['closed', '200 done']);
});

test('a client that disconnects ends a GET', async () => {
  const [begun, gone] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const url = await proxyTo([
    await serve((_req, res) => {
      res.once('close', gone.resolve);
      begun.resolve();
    }),
  ]);
  const asked = request(url, { agent: false });
  asked.on('error', () => {});
  asked.end();
  await begun.promise;
  asked.destroy();
  await gone.promise;
});

test('a body over the limit is refused before it is forwarded', async () => {
  const url = await proxyTo([await serve(echo)]);
  const answer = await fetch(url, { method: 'POST', body: 'x'.repeat(7 * 1024 * 1024) });
  expect(answer.status).toBe(413);
});

test('an answer to a change holds memory of its user until its client has taken it or left', async () => {
  const bytes = 20_000_000;
  const url = await proxyTo([await serve((_req, res) => res.end(Buffer.alloc(bytes)))]);
  const headers = ofUser();
  const asked = request(url, { method: 'POST', agent: false, headers });
  asked.on('error', () => {}).end();
  await eventually(() => memory.api.used === bytes);
  asked.destroy();
  await eventually(() => memory.api.used === 0);
  const answer = await fetch(url, { method: 'POST', headers });
  expect((await answer.arrayBuffer()).byteLength).toBe(bytes);
  await eventually(() => memory.api.used === 0);
});

test('an answer to a change that breaks off is a 503, and holds no memory', async () => {
  const url = await proxyTo([
    await serve((_req, res) => {
      res.writeHead(200, { 'content-length': '100' });
      res.write('half of it', () => res.destroy());
    }),
  ]);
  const headers = ofUser();
  expect((await fetch(url, { method: 'POST', headers })).status).toBe(503);
  await eventually(() => memory.api.used === 0);
});
