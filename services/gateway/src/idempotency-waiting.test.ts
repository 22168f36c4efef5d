import { request } from 'node:http';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { UNLIMITED } from '@wellspring/core/byte-budget';
import { Unavailable } from '@wellspring/core/unavailable';
import { sendProblem } from '@wellspring/http/problem-response';
import { readConfig } from '@wellspring/runtime/config';
import { type IdempotencyRow, idempotencyKeys } from '@wellspring/store/collections/idempotency';
import { eventually } from '@wellspring/testing/eventually';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { type HttpServer, send, startHttpServer } from '@wellspring/testing/http';
import { openPorts, type Ports } from '@wellspring/testing/service-harness';
import { createIdempotency } from './idempotency.ts';

let ports: Ports;
let server: HttpServer;
let finish: () => void;
let held: Promise<void>;
let reads = 0;
let carriedOut = 0;
// Its time stands still: no poll ends a wait.
const clock = createFakeClock();

beforeAll(async () => {
  ports = openPorts();
  const rows = ports.store.collection(idempotencyKeys);
  const { getVersioned } = rows;
  Object.assign(rows, {
    getVersioned: (id: string) => {
      reads += 1;
      return getVersioned(id);
    },
  });
  const idempotent = createIdempotency({
    ...ports,
    clock,
    config: { ...readConfig({ env: {} }), adminKey: null },
  });
  server = await serve(idempotent);
});

const serve = (idempotent: ReturnType<typeof createIdempotency>) =>
  startHttpServer((req, res) => {
    const caller = { userId: String(req.headers['x-user']), hold: UNLIMITED };
    idempotent
      .handle(req, res, caller, async () => {
        carriedOut += 1;
        await held;
        res.end('{"done":true}');
      })
      .catch((error: unknown) => sendProblem(res, error, { requestId: 'req_1', log: ports.log }));
  });
afterAll(async () => {
  await server.close();
  await ports.close();
});
afterEach(() => {
  reads = 0;
  carriedOut = 0;
});

const hold = () => {
  ({ promise: held, resolve: finish } = Promise.withResolvers<void>());
};
const post = (key: string, user = 'u_0000000001', to = server) =>
  send(to.port, 'POST', '/', { headers: { 'idempotency-key': key, 'x-user': user } });
/** Of the distributed mode. */
const startProcess = () => {
  const config = { ...readConfig({ env: {} }), adminKey: null, mode: 'distributed' as const };
  return serve(createIdempotency({ ...ports, clock, config }));
};
/** The next reader gets the row as it was before `meanwhile`. */
function afterRead(meanwhile: () => Promise<void>): void {
  const rows = ports.store.collection(idempotencyKeys);
  const { getVersioned } = rows;
  Object.assign(rows, {
    async getVersioned(id: string) {
      Object.assign(rows, { getVersioned });
      const found = await getVersioned(id);
      await meanwhile();
      return found;
    },
  });
}
const sleeping = () => clock.wakings().length;

test('a waiting call is answered as soon as the first is over, without a poll', async () => {
  hold();
  const calls = [post('one')];
  await eventually(() => carriedOut === 1);
  for (let i = 0; i < 20; i += 1) calls.push(post('one'));
  await clock.asleep(20);
  const before = reads;
  finish();
  const answers = await Promise.all(calls);
  expect(answers.map(({ text }) => text)).toEqual(Array.from({ length: 21 }, () => '{"done":true}'));
  expect([carriedOut, reads - before]).toEqual([1, 20]);
});

test('a call that is taken for abandoned by two processes at once is repeated by one of them', async () => {
  hold();
  const [dead, quick, slow] = [await startProcess(), await startProcess(), await startProcess()];
  const calls = [post('abandoned', 'u_0000000003', dead)];
  await eventually(() => carriedOut === 1);
  await clock.advance(700_001);
  afterRead(async () => {
    // Meanwhile, another process repeats the call.
    calls.push(post('abandoned', 'u_0000000003', quick));
    await eventually(() => carriedOut === 2);
  });
  calls.push(post('abandoned', 'u_0000000003', slow));
  await clock.asleep();
  finish();
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(carriedOut).toBe(2);
  for (const one of [dead, quick, slow]) await one.close();
});

test.each([
  ['the same process', 0],
  ['another process, which takes the call for abandoned', 700_001],
])('a response that is stored while a repetition reads its key is replayed by %s', async (_, ms) => {
  hold();
  const key = `stored after ${ms} ms`;
  const first = await startProcess();
  const second = ms === 0 ? first : await startProcess();
  const answer = post(key, 'u_0000000004', first);
  await eventually(() => carriedOut === 1);
  await clock.advance(ms);
  afterRead(async () => {
    finish();
    await answer;
  });
  const repetition = await post(key, 'u_0000000004', second);
  expect([repetition.headers['idempotent-replayed'], carriedOut]).toEqual(['true', 1]);
  for (const one of new Set([first, second])) await one.close();
});

test('a call can be repeated after the answer to its insertion was lost', async () => {
  hold();
  finish();
  const rows = ports.store.collection(idempotencyKeys);
  const { insert } = rows;
  Object.assign(rows, {
    async insert(row: IdempotencyRow) {
      Object.assign(rows, { insert });
      await insert(row);
      throw new Unavailable('The answer was lost');
    },
  });
  expect((await post('lost')).status).toBe(503);
  expect((await post('lost')).status).toBe(200);
  expect(carriedOut).toBe(1);
});

test('a call that is refused late does not take over the key of a call that began meanwhile', async () => {
  hold();
  const rows = ports.store.collection(idempotencyKeys);
  const { insert } = rows;
  const calls: ReturnType<typeof post>[] = [];
  Object.assign(rows, {
    async insert(row: IdempotencyRow) {
      Object.assign(rows, { insert });
      await insert({ ...row, process: 'another' });
      const refused = await insert(row).catch((error: unknown) => error);
      // The call of the other process ends without success; a repetition comes before this answer.
      await rows.remove(row.id);
      calls.push(post('raced'));
      await eventually(() => carriedOut === 1);
      throw refused;
    },
  });
  calls.push(post('raced'));
  await clock.asleep();
  finish();
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual([200, 200]);
  expect(carriedOut).toBe(1);
});

test('a call ends its wait when its client leaves', async () => {
  hold();
  const first = post('left');
  await eventually(() => carriedOut === 1);
  const waiter = request({
    port: server.port,
    method: 'POST',
    agent: false,
    headers: { 'idempotency-key': 'left', 'x-user': 'u_0000000001' },
  });
  waiter.on('error', () => {});
  waiter.end();
  await clock.asleep();
  waiter.destroy();
  await eventually(() => sleeping() === 0);
  finish();
  await first;
});

test('a user has a bounded number of waiting calls, and takes none from others', async () => {
  hold();
  const first = post('many');
  await eventually(() => carriedOut === 1);
  const waiting = Array.from({ length: 50 }, () => post('many'));
  await clock.asleep(50);
  expect((await post('many')).status).toBe(429);
  const other = post('many', 'u_0000000002');
  await eventually(() => carriedOut === 2);
  const another = post('many', 'u_0000000002');
  await clock.asleep(51);
  finish();
  const answers = await Promise.all([first, ...waiting, other, another]);
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
});
