import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { eventually } from '@wellspring/testing/eventually';
import { blobUrl } from './blobs.ts';
import { type Platform, startGateway } from './platform.fixture.ts';

const BYTES = 20_000_000;
let platform: Platform;
/** Its file has BYTES bytes. */
let id: string;
const sockets: Socket[] = [];

beforeAll(async () => {
  platform = await startGateway();
  id = await platform.deps.blob.put(Buffer.alloc(BYTES), { ttlMs: 600_000 });
});
afterAll(() => platform.stop());
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await eventually(() => platform.deps.memory.replies.used === 0);
});

function pathFor(ownerId: string): string {
  const { pathname, search } = new URL(
    blobUrl(platform.deps, { id, ownerId, until: platform.deps.clock.now() + 60_000 }),
  );
  return pathname + search;
}

/** Sends a request by hand, and reads nothing. */
function begin(method: string, path: string): Socket {
  const socket = connect(Number(new URL(platform.url).port), '127.0.0.1');
  socket.on('error', () => {}).pause();
  sockets.push(socket);
  socket.write(`${method} ${path} HTTP/1.1\r\nhost: x\r\n\r\n`);
  return socket;
}

test('a file holds memory of its owner until its client has taken it or left', async () => {
  const { replies } = platform.deps.memory;
  const socket = begin('GET', pathFor('u_alice'));
  await eventually(() => replies.used === BYTES);
  expect((await platform.call('HEAD', pathFor('u_alice'))).headers['content-length']).toBe(String(BYTES));
  expect(replies.used).toBe(BYTES);
  socket.destroy();
  await eventually(() => replies.used === 0);
  expect((await platform.call('GET', pathFor('u_alice'))).body).toHaveLength(BYTES);
});

test('a file is refused with 503 and Retry-After while its owner fills the memory, and those of others are sent', async () => {
  const { replies } = platform.deps.memory;
  const release = replies.tryTake(replies.total / 2 - BYTES / 4, 'u_alice')!;
  const refused = await platform.call('GET', pathFor('u_alice'));
  expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1']);
  expect((await platform.call('HEAD', pathFor('u_alice'))).status).toBe(200);
  expect((await platform.call('GET', pathFor('u_bob'))).status).toBe(200);
  release();
  expect((await platform.call('GET', pathFor('u_alice'))).status).toBe(200);
});

test('the owner of an address cannot be replaced or removed', async () => {
  const path = pathFor('u_alice');
  for (const forged of [path.replace('u_alice', 'u_bob'), path.replace('&owner=u_alice', '')]) {
    expect([forged === path, (await platform.call('GET', forged)).status]).toEqual([false, 404]);
  }
});

test('a file is refused with 503 and Retry-After while the store of files is away', async () => {
  const { blob } = platform.deps;
  const { get } = blob;
  blob.get = () => Promise.reject(new Unavailable('away'));
  const refused = await platform.call('GET', pathFor('u_alice'));
  blob.get = get;
  expect([refused.status, refused.headers['retry-after']]).toEqual([503, '1']);
});
