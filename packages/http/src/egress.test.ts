import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createSocketServer, type Socket } from 'node:net';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { createEgress, LOOKUP_THREADS } from './egress.ts';

let server: Server;
let port: number;
let connections = 0;

beforeAll(async () => {
  server = createServer((req, res) => {
    if (req.url === '/away') res.writeHead(302, { location: 'http://169.254.169.254/' });
    const bytes = { '/100k': 100_000, '/1m': 1_000_000 }[req.url!];
    req.resume().on('end', () => res.end(bytes ? 'x'.repeat(bytes) : 'inside'));
  });
  server.on('connection', () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as AddressInfo).port;
});
afterAll(() => new Promise<void>((resolve) => void server.close(() => resolve())));

const open = createEgress({ allowNetworks: ['127.0.0.0/8', '::1/128'] });
const closed = createEgress({ allowNetworks: [] });
afterAll(async () => {
  await open.close();
  await closed.close();
});

const get = (egress: typeof open, host: string, path = '/') =>
  egress.agent.request({ origin: `http://${host}:${port}`, path, method: 'GET' });

/** Names and literals that lead to this machine, in notations that a URL may hold. */
const HOSTS = [
  '127.0.0.1',
  'localhost',
  '127.1',
  '2130706433',
  '0x7f000001',
  '0177.0.0.1',
  '[::ffff:127.0.0.1]',
  '0',
];

describe('connections', () => {
  test.each(HOSTS)('to %s are refused before a packet is sent', async (host) => {
    const before = connections;
    await expect(get(closed, host)).rejects.toMatchObject({ code: 'EACCES', name: 'AddressRefused' });
    expect(connections).toBe(before);
  });

  test('to an allowed network are made and reused', async () => {
    const before = connections;
    for (let i = 0; i < 20; i += 1) {
      const answer = await get(open, '127.0.0.1');
      expect(await answer.body.text()).toBe('inside');
    }
    expect(connections - before).toBeLessThan(5);
    expect(await (await get(open, 'localhost')).body.text()).toBe('inside');
  });

  test('may carry any number of answers, but none without end', async () => {
    const before = connections;
    for (let i = 0; i < 10; i += 1)
      expect((await (await get(open, '127.0.0.1', '/100k')).body.text()).length).toBe(100_000);
    expect(connections - before).toBeLessThan(5);
    const { body } = await get(open, '127.0.0.1', '/1m');
    await expect(body.text()).rejects.toThrow();
  });

  test('follow no redirect', async () => {
    const answer = await get(open, '127.0.0.1', '/away');
    expect(answer.statusCode).toBe(302);
    await answer.body.dump();
  });
});

test.each([25, 465, 587])('port %i of mail servers is not reached', async (mail) => {
  for (const host of ['127.0.0.1', 'localhost']) {
    const origin = `http://${host}:${mail}`;
    await expect(open.agent.request({ origin, path: '/', method: 'POST' })).rejects.toMatchObject({
      code: 'EACCES',
      message: expect.stringContaining('mail servers'),
    });
    expect(() => open.checkUrl(origin)).toThrow('mail servers');
  }
});

describe('the lookup for other clients', () => {
  const lookup = promisify(
    (egress: typeof open, options: object, done: (error: unknown, found?: unknown) => void) =>
      egress.lookup('localhost', options, (error, address) => done(error, address)),
  );
  test('never returns a refused address', async () => {
    await expect(lookup(closed, {})).rejects.toMatchObject({ code: 'EACCES' });
    await expect(lookup(closed, { all: true })).rejects.toMatchObject({ code: 'EACCES' });
  });
  test('gives one address, or all of them', async () => {
    expect(await lookup(open, { family: 4 })).toBe('127.0.0.1');
    expect(await lookup(open, { family: 4, all: true })).toEqual([{ address: '127.0.0.1', family: 4 }]);
  });
});

test('origins whose requests end without an answer are forgotten', async () => {
  const egress = createEgress({
    allowNetworks: ['127.0.0.0/8'],
    resolve: (_hostname, _options, callback) =>
      setImmediate(callback, null, [{ address: '127.0.0.1', family: 4 }]),
  });
  const hanging: Socket[] = [];
  const receiver = createSocketServer((socket) => hanging.push(socket.on('error', () => {})));
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  const { port: number } = receiver.address() as AddressInfo;
  const ended = new AbortController();
  const request = (n: number) =>
    egress.agent.request({
      origin: `http://n${n}.test:${number}`,
      path: '/',
      method: 'POST',
      signal: ended.signal,
    });
  const requests = Array.from({ length: 10 }, (_, n) => request(n).catch(String));
  await eventually(() => hanging.length === requests.length);
  expect(Object.keys(egress.agent.stats)).toHaveLength(requests.length);
  ended.abort('too late');
  expect(new Set(await Promise.all(requests))).toEqual(new Set(['too late']));
  await eventually(() => Object.keys(egress.agent.stats).length === 0);
  for (const socket of hanging) socket.destroy();
  await new Promise((resolve) => receiver.close(resolve));
  await egress.close();
});

test('a connection has a maximum age: the name is looked up again, and busy connections finish', async () => {
  let address = '127.0.0.1';
  const egress = createEgress({
    allowNetworks: ['127.0.0.0/8'],
    connections: 2,
    maxAgeMs: 1,
    resolve: (_hostname, _options, callback) => setImmediate(callback, null, [{ address, family: 4 }]),
  });
  const held: ServerResponse[] = [];
  const old = createServer((req, res) => {
    if (req.url === '/held') held.push(res);
    else res.end('old');
  });
  const moved = createServer((_, res) => void res.end('moved'));
  await new Promise<void>((resolve) => old.listen(0, '127.0.0.1', resolve));
  const { port: number } = old.address() as AddressInfo;
  await new Promise<void>((resolve) => moved.listen(number, '127.0.0.2', resolve));
  const text = async (path: string) => {
    const { body } = await egress.agent.request({
      origin: `http://moves.test:${number}`,
      path,
      method: 'POST',
    });
    return body.text();
  };
  const busy = text('/held');
  await eventually(() => held.length === 1);
  expect(await text('/')).toBe('old');
  address = '127.0.0.2';
  await eventually(async () => (await text('/')) === 'moved');
  held[0]!.end('finished');
  expect(await busy).toBe('finished');
  await egress.close();
  for (const server of [old, moved]) await new Promise((resolve) => server.close(resolve));
});

describe('names whose servers do not answer', () => {
  const egress = createEgress({
    allowNetworks: ['127.0.0.0/8'],
    resolve(hostname, _options, callback) {
      if (hostname.startsWith('slow')) held.push(() => callback(null, []));
      else setImmediate(callback, null, [{ address: '127.0.0.1', family: 4 }]);
    },
  });
  const held: (() => void)[] = [];
  afterAll(() => egress.agent.destroy());
  const statusFor = (owner: string, host: string) =>
    egress.forOwner(owner, () =>
      get(egress, host).then(async ({ statusCode, body }) => {
        await body.dump();
        return statusCode;
      }),
    );

  test('occupy one thread each, however many connections of their owner ask for them', async () => {
    const hanging = Array.from({ length: 40 }, () => statusFor('u_1', 'slow.test').catch(String));
    expect(await statusFor('u_1', 'good.test')).toBe(200);
    expect(held).toHaveLength(1);
    held.pop()!();
    expect(new Set(await Promise.all(hanging))).toEqual(new Set([expect.stringContaining('slow.test')]));
  });

  test('leave threads for the look-ups of other owners', async () => {
    const hostile = ['u_1', 'u_2'].flatMap((owner) =>
      Array.from({ length: 40 }, (_, n) => statusFor(owner, `slow${n}.test`).catch(String)),
    );
    expect(await statusFor('u_3', 'good.test')).toBe(200);
    expect(held.length).toBeGreaterThan(4);
    expect(2 * (held.length + 1)).toBeLessThan(LOOKUP_THREADS / 2);
    while (held.length > 0) {
      for (const answer of held.splice(0)) answer();
      await new Promise(setImmediate);
    }
    expect(new Set(await Promise.all(hostile))).toEqual(
      new Set(Array.from({ length: 40 }, (_, n) => expect.stringContaining(`slow${n}.test`))),
    );
  });
});

describe('checkUrl', () => {
  test.each([
    'http://127.0.0.1/',
    'http://127.1/',
    'https://0x7f.1/',
    'http://[::1]:80/',
    'http://[fd00::1]/',
    'http://169.254.169.254/latest',
  ])('refuses the literal in %s', (url) =>
    expect(() => closed.checkUrl(url)).toThrow('not a public address'),
  );
  test.each(['ftp://example.com/', 'file:///etc/passwd', 'javascript:alert(1)'])(
    'refuses the scheme of %s',
    (url) => expect(() => closed.checkUrl(url)).toThrow('neither http nor https'),
  );
  test('leaves names to the lookup', () => expect(() => closed.checkUrl('https://localhost/')).not.toThrow());
});
