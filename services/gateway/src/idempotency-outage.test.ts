import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { UNLIMITED } from '@wellspring/core/byte-budget';
import { Unavailable } from '@wellspring/core/unavailable';
import { sendProblem } from '@wellspring/http/problem-response';
import { readConfig } from '@wellspring/runtime/config';
import { IDEMPOTENCY_MS, idempotencyKeys } from '@wellspring/store/collections/idempotency';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { type HttpServer, send, startHttpServer } from '@wellspring/testing/http';
import { openPorts, type Ports } from '@wellspring/testing/service-harness';
import { createIdempotency, type Idempotency } from './idempotency.ts';

/** Two gateways, of which the first could not store the response of a call. */
let ports: Ports;
let clock: ReturnType<typeof createFakeClock>;
let servers: HttpServer[];
let first: Idempotency;
let executed: number;
/** The store takes writes again. */
let restore: () => void;

const startGateway = () => {
  const config = { ...readConfig({ env: {} }), adminKey: null, mode: 'distributed' as const };
  return createIdempotency({ ...ports, clock, config });
};
const post = async (server: HttpServer) => {
  const { status, headers } = await send(server.port, 'POST', '/', { headers: { 'idempotency-key': 'key' } });
  return [status, headers['idempotent-replayed'] === 'true'];
};

beforeEach(async () => {
  ports = openPorts();
  clock = createFakeClock();
  executed = 0;
  first = startGateway();
  servers = await Promise.all(
    [first, startGateway()].map((gateway) =>
      startHttpServer((req, res) => {
        const execute = () => {
          executed += 1;
          res.end('{}');
        };
        gateway
          .handle(req, res, { userId: 'u_0000000001', hold: UNLIMITED }, execute)
          .catch((error: unknown) => sendProblem(res, error, { requestId: 'req_1', log: ports.log }));
      }),
    ),
  );
  const rows = ports.store.collection(idempotencyKeys);
  const { patch } = rows;
  rows.patch = () => Promise.reject(new Unavailable('the store is down'));
  restore = () => {
    rows.patch = patch;
  };
  expect(await post(servers[0]!)).toEqual([200, false]);
});
afterEach(async () => {
  for (const server of servers) await server.close();
  await ports.close();
});

afterEach(() => expect(ports.memory.api.used).toBe(0));

const retries = () => clock.wakings().length;

test('a response that is not stored yet holds memory of its user', async () => {
  expect(ports.memory.api.used).toBe('{}'.length);
  await first.close();
});

test('a response that could not be stored is stored in the background, and another process sends it', async () => {
  await clock.advance(5_000);
  expect(retries()).toBe(1);
  restore();
  await clock.advance(30_000);
  expect(retries()).toBe(0);
  expect(await post(servers[1]!)).toEqual([200, true]);
  expect(executed).toBe(1);
});

test('a response that could not be stored for a day is given up', async () => {
  await clock.advance(IDEMPOTENCY_MS - 30_000);
  expect(retries()).toBe(1);
  await clock.advance(60_000);
  expect(retries()).toBe(0);
});

test.each(['restored', 'down'])(
  'closing stores the response at once if it can: the store is %s',
  async (state) => {
    if (state === 'restored') restore();
    await first.close();
    expect(retries()).toBe(0);
    const [row] = await ports.store.collection(idempotencyKeys).list();
    expect(row!.response !== null).toBe(state === 'restored');
  },
);

test('closing waits for a response that is being stored', async () => {
  restore();
  await clock.advance(30_000);
  const rows = ports.store.collection(idempotencyKeys);
  const { patch } = rows;
  const [begun, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  rows.patch = async (...args) => {
    begun.resolve();
    await held.promise;
    return patch(...args);
  };
  const headers = { 'idempotency-key': 'other' };
  const answered = send(servers[0]!.port, 'POST', '/', { headers });
  await begun.promise;
  let isClosed = false;
  const closed = first.close().then(() => {
    isClosed = true;
  });
  await nextTurn();
  expect(isClosed).toBe(false);
  held.resolve();
  await closed;
  expect((await rows.list()).filter(({ response }) => response === null)).toEqual([]);
  expect((await answered).status).toBe(200);
});
