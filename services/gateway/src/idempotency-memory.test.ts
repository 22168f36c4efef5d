import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { createComponent, testComponent } from '@wellspring/contract/endpoints/components';
import { route } from '@wellspring/http/bind';
import { eventually } from '@wellspring/testing/eventually';
import { type Platform, startGateway } from './platform.fixture.ts';

const BYTES = 20_000_000;
let platform: Platform;
let alice: { id: string; key: string };
let executed = 0;
const sockets: Socket[] = [];

beforeAll(async () => {
  platform = await startGateway({
    others: {
      components: () => ({
        name: 'components',
        routes: [
          route(createComponent, async () => {
            executed += 1;
            return { code: 'x'.repeat(BYTES) } as never;
          }),
          route(testComponent, async () => {
            executed += 1;
            return { ok: true, emitted: ['x'.repeat(executed === 1 ? 100_000 : 10)] } as never;
          }),
        ],
      }),
    },
  });
  alice = await platform.user();
});
afterAll(() => platform.stop());
afterEach(async () => {
  executed = 0;
  for (const socket of sockets.splice(0)) socket.destroy();
  await eventually(() => platform.deps.memory.api.used === 0);
});

const BODY = JSON.stringify({ component_code: 'x' });

const post = (idempotencyKey: string) =>
  platform.api('POST', '/components', {
    key: alice.key,
    body: BODY,
    headers: { 'content-type': 'application/json', 'idempotency-key': idempotencyKey },
  });

test('a repeated response holds memory until its client has taken it or left', async () => {
  const { api } = platform.deps.memory;
  expect((await post('slow')).status).toBe(200);
  await eventually(() => api.used === 0);
  const socket = connect(Number(new URL(platform.url).port), '127.0.0.1');
  socket.on('error', () => {}).pause();
  sockets.push(socket);
  const headers = ['host: x', `authorization: Bearer ${alice.key}`, 'content-type: application/json'];
  const lines = [...headers, 'idempotency-key: slow', `content-length: ${BODY.length}`, '', BODY];
  socket.write(['POST /v1/components HTTP/1.1', ...lines].join('\r\n'));
  await eventually(() => api.used > BYTES);
  socket.destroy();
  await eventually(() => api.used === 0);
  expect(executed).toBe(1);
});

test('a repeated response without memory is a 503, and is given later', async () => {
  const { api } = platform.deps.memory;
  const first = await post('full');
  await eventually(() => api.used === 0);
  const release = api.tryTake(api.total / 2 - 64 * 1024, alice.id)!;
  const { status, json, headers } = await post('full');
  expect([status, json.code, headers['retry-after']]).toEqual([503, 'unavailable', '1']);
  release();
  const repeated = await post('full');
  expect([repeated.status, repeated.text === first.text, executed]).toEqual([200, true, 1]);
});

test('a repetition gives the memory of its body for the response', async () => {
  const { api } = platform.deps.memory;
  await post('tight');
  await eventually(() => api.used === 0);
  // With the bytes of its body, the owner could get no amount of half of the memory.
  const others = api.tryTake(Math.max(1, api.total - 2 * Math.min(api.total / 2, (BYTES * 4) / 3)))!;
  expect((await post('tight')).status).toBe(200);
  others();
});

test('a large answer of a call that changes nothing is not kept: its repetition is executed', async () => {
  const test = () =>
    platform.api('POST', '/components/test', {
      key: alice.key,
      body: BODY,
      headers: { 'content-type': 'application/json', 'idempotency-key': 'test' },
    });
  const answers = [await test(), await test(), await test()];
  expect(answers.map(({ status, headers }) => [status, headers['idempotent-replayed']])).toEqual([
    [200, undefined],
    [200, undefined],
    [200, 'true'],
  ]);
  expect(executed).toBe(2);
});
