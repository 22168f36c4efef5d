import { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createByteBudget, createHold } from '@wellspring/core/byte-budget';
import { NoRoomForBody } from '@wellspring/http/read-body';
import type { EndpointRow } from '@wellspring/store/collections/sources';
import { eventually } from '@wellspring/testing/eventually';
import { holdReply } from './hold-reply.ts';
import { jobs, platform, replyWith } from './ingest.fixture.ts';

const BYTES = 20_000_000;
let endpoint: EndpointRow;
const sockets: Socket[] = [];

beforeEach(async () => {
  endpoint = await platform.endpoint({ custom_response: true });
  replyWithBytes(BYTES);
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  const { replies, intake } = platform.deps.memory;
  await eventually(() => replies.used + intake.used === 0);
});

function replyWithBytes(bytes: number): void {
  const body = Buffer.alloc(bytes, 'x').toString('base64');
  replyWith(() => ({ kind: 'response', status: 200, headers: {}, body }));
}

const call = ({ id }: EndpointRow) => platform.call('POST', `/e/${id}`);

/** Calls the endpoint by hand, and reads nothing. */
function begin(): Socket {
  const socket = connect(Number(new URL(platform.url).port), '127.0.0.1');
  socket.on('error', () => {}).pause();
  sockets.push(socket);
  socket.write(`GET /e/${endpoint.id} HTTP/1.1\r\nhost: x\r\n\r\n`);
  return socket;
}

/** The owner fills its half of the budget. */
const fill = () => {
  const { replies } = platform.deps.memory;
  return replies.tryTake(replies.total / 2 - 64 * 1024, endpoint.owner_id)!;
};

test('a large reply holds memory until its caller has taken it or left', async () => {
  const { replies } = platform.deps.memory;
  const socket = begin();
  await eventually(() => replies.used === BYTES);
  socket.destroy();
  await eventually(() => replies.used === 0);
  expect((await call(endpoint)).body).toHaveLength(BYTES);
});

test('a large reply waits while those of its owner fill the memory; small ones and those of other owners do not', async () => {
  const { intake } = platform.deps.memory;
  // Two replies have to be given while the first waits, for 5 s at most.
  const bytes = 200_000;
  replyWithBytes(bytes);
  const release = fill();
  const answered = call(endpoint);
  await eventually(() => intake.used === bytes);
  const other = await platform.endpoint({ custom_response: true });
  expect((await call(other)).body).toHaveLength(bytes);
  replyWithBytes(10);
  expect((await call(endpoint)).status).toBe(200);
  release();
  expect((await answered).body).toHaveLength(bytes);
});

test('a large reply that may not wait is a 503 with Retry-After', async () => {
  const { intake } = platform.deps.memory;
  const release = fill();
  const waiting = intake.tryTake(intake.total / 2 - 64 * 1024, endpoint.owner_id)!;
  const { status, headers } = await call(endpoint);
  expect([status, headers['retry-after'], jobs.length]).toEqual([503, '1', 1]);
  waiting();
  release();
});

test('a caller that leaves while its reply waits holds no memory', async () => {
  const { intake } = platform.deps.memory;
  const release = fill();
  const socket = begin();
  await eventually(() => intake.used === BYTES);
  socket.destroy();
  release();
});

test('a large reply gets no room in time: it is given up, with its bytes', async () => {
  const [replies, intake] = [createByteBudget(1_000_000), createByteBudget(1_000_000)];
  replies.tryTake(500_000, 'u_1');
  const res = new ServerResponse({ method: 'GET' } as never);
  const held = holdReply(res, 100_000, {
    owner: 'u_1',
    replies,
    waiting: createHold(intake, 'u_1'),
    waitMs: 1,
  });
  expect(intake.used).toBe(100_000);
  await expect(held).rejects.toThrow(NoRoomForBody);
  expect([replies.used, intake.used]).toEqual([500_000, 0]);
});
