import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { createComponent } from '@wellspring/contract/endpoints/components';
import { listSourceEvents } from '@wellspring/contract/endpoints/events';
import { route } from '@wellspring/http/bind';
import { eventually } from '@wellspring/testing/eventually';
import { type Platform, startGateway } from './platform.fixture.ts';

let platform: Platform;
let alice: { id: string; key: string };
let bob: { id: string; key: string };
/** Bytes of the answers. */
let answerBytes: number;
/** Ends the calls of components in progress. */
let finish: () => void;
let finished: Promise<void>;
/** Settles when the client of such a call has left. */
let left: Promise<unknown>;
const sockets: Socket[] = [];

beforeAll(async () => {
  platform = await startGateway({
    others: {
      components: () => ({
        name: 'components',
        routes: [
          route(createComponent, async ({ signal }) => {
            left = once(signal, 'abort');
            await finished;
            return { code: 'x'.repeat(answerBytes) } as never;
          }),
        ],
      }),
      events: () => ({
        name: 'events',
        routes: [
          route(listSourceEvents, async () => ({
            data: [{ id: '1-0', event: 'x'.repeat(answerBytes) } as never],
            total_count: 1,
          })),
        ],
      }),
    },
  });
  alice = await platform.user();
  bob = await platform.user();
});
afterAll(() => platform.stop());
beforeEach(() => {
  answerBytes = 10;
  finished = Promise.resolve();
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await eventually(() => platform.deps.memory.api.used === 0);
});

/** Sends a request by hand, and reads nothing. */
function begin(head: string, ...lines: string[]): Socket {
  const socket = connect(Number(new URL(platform.url).port), '127.0.0.1');
  socket.on('error', () => {});
  socket.pause();
  sockets.push(socket);
  const headers = ['host: x', `authorization: Bearer ${alice.key}`, 'content-type: application/json'];
  socket.write([`${head} HTTP/1.1`, ...headers, ...lines, '', ''].join('\r\n'));
  return socket;
}

const post = (bytes: number, key = alice.key, headers = {}) =>
  platform.api('POST', '/components', { key, headers, body: { component_code: 'x'.repeat(bytes) } });
const list = (key = alice.key) => platform.api('GET', '/sources/dc_1/event_summaries', { key });

test('a body holds memory for the bytes that have arrived, and none after its client has left', async () => {
  const { api } = platform.deps.memory;
  const socket = begin('POST /v1/components', 'content-length: 400000');
  socket.write(Buffer.alloc(100_000, 'x'));
  await eventually(() => api.used >= 100_000);
  expect(api.used).toBeLessThan(200_000);
  socket.destroy();
  await eventually(() => api.used === 0);
});

test('a body holds memory until its request was handled, also if the client leaves before', async () => {
  const { api } = platform.deps.memory;
  ({ promise: finished, resolve: finish } = Promise.withResolvers<void>());
  left = new Promise(() => {});
  const body = JSON.stringify({ component_code: 'x'.repeat(100_000) });
  for (const headers of [[], ['idempotency-key: 1']]) {
    const before = left;
    const socket = begin('POST /v1/components', `content-length: ${body.length}`, ...headers);
    socket.write(body);
    await eventually(() => left !== before);
    socket.destroy();
    await left;
  }
  expect(api.used).toBeGreaterThan(200_000);
  finish();
  await eventually(() => api.used === 0);
});

test('the value of a body holds memory with the body, also if the client leaves before the end', async () => {
  const { api } = platform.deps.memory;
  ({ promise: finished, resolve: finish } = Promise.withResolvers<void>());
  left = new Promise(() => {});
  const before = left;
  const body = `{"component_code":"x","more":[${'[],'.repeat(30_000)}0]}`;
  const socket = begin('POST /v1/components', `content-length: ${body.length}`);
  socket.write(body);
  await eventually(() => left !== before);
  expect(api.used).toBeGreaterThan(6 * body.length);
  socket.destroy();
  await left;
  expect(api.used).toBeGreaterThan(6 * body.length);
  finish();
  await eventually(() => api.used === 0);
});

test('a body is refused with 503 and Retry-After while its user fills the memory, and other users are served', async () => {
  const { api } = platform.deps.memory;
  const release = api.tryTake(api.total / 2 - 64 * 1024, alice.id)!;
  for (const headers of [{}, { 'idempotency-key': '2' }, { 'transfer-encoding': 'chunked' }]) {
    const answer = await post(256 * 1024, alice.key, headers);
    expect([answer.status, answer.json.code, answer.headers['retry-after']]).toEqual([
      503,
      'unavailable',
      '1',
    ]);
  }
  expect((await post(10)).status).toBe(200);
  expect((await post(256 * 1024, bob.key)).status).toBe(200);
  release();
  expect((await post(256 * 1024)).status).toBe(200);
  expect((await post(256 * 1024, alice.key, { 'idempotency-key': '2' })).status).toBe(200);
});

test('a large answer holds memory until its client has taken it', async () => {
  const { api } = platform.deps.memory;
  answerBytes = 20_000_000;
  begin('GET /v1/sources/dc_1/event_summaries');
  await eventually(() => api.used > answerBytes);
  expect(api.used).toBeLessThan(1.1 * answerBytes);
});

test('a large answer is a 503 without memory, except after a change; small ones need none', async () => {
  const { api } = platform.deps.memory;
  const all = api.tryTake(api.total)!;
  expect((await list()).status).toBe(200);
  answerBytes = 1_000_000;
  const { status, json, headers } = await list();
  expect([status, json.code, headers['retry-after']]).toEqual([503, 'unavailable', '1']);
  all();
  const most = api.tryTake(api.total / 2 - 64 * 1024, alice.id)!;
  expect([(await list()).status, (await list(bob.key)).status]).toEqual([503, 200]);
  expect((await post(10)).status).toBe(200);
  most();
});

test('a large answer to a change holds memory also beyond the room, until its client has taken it', async () => {
  const { api } = platform.deps.memory;
  const release = api.tryTake(api.total / 2 - 64 * 1024, alice.id)!;
  answerBytes = 20_000_000;
  const before = api.used;
  const socket = begin('POST /v1/components', 'content-length: 22');
  socket.write('{"component_code":"x"}');
  await eventually(() => api.used > before + answerBytes);
  expect((await post(10)).status).toBe(503);
  release();
});
