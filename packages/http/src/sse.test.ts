import type { ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { createByteBudget, createHold, UNLIMITED } from '@wellspring/core/byte-budget';
import { eventually } from '@wellspring/testing/eventually';
import { type HttpServer, startHttpServer } from '@wellspring/testing/http';
import { openStream } from './sse.ts';

let server: HttpServer;
let accept: (res: ServerResponse) => void;
const sockets: Socket[] = [];

beforeAll(async () => {
  server = await startHttpServer((_req, res) => accept(res));
});
afterAll(() => server.close());
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

/** A connection that has asked, and the answer that it gets. */
async function opened(method = 'GET'): Promise<{ socket: Socket; res: ServerResponse }> {
  const accepted = new Promise<ServerResponse>((resolve) => {
    accept = resolve;
  });
  const socket = connect(server.port, '127.0.0.1');
  sockets.push(socket);
  socket.on('error', () => {});
  socket.write(`${method} / HTTP/1.1\r\nhost: x\r\n\r\n`);
  return { socket, res: await accepted };
}

test('the headers of a stream tell proxies neither to buffer nor to cache it', async () => {
  const { socket, res } = await opened();
  const stream = openStream(res, UNLIMITED);
  expect(await stream.send('data: 1\n\n')).toBe(true);
  const text = await new Promise<string>((resolve) => {
    let all = '';
    socket.on('data', (chunk: Buffer) => {
      all += chunk;
      if (all.includes('data: 1')) resolve(all);
    });
  });
  expect(text).toMatch(/content-type: text\/event-stream/i);
  expect(text).toMatch(/cache-control: no-cache, no-transform/i);
  expect(text).toMatch(/x-accel-buffering: no/i);
  stream.end();
  expect(await stream.send('data: 2\n\n')).toBe(false);
});

test('HEAD gets the headers of the stream, and the connection takes the next request', async () => {
  const { socket, res } = await opened('HEAD');
  const stream = openStream(res, UNLIMITED);
  expect(await stream.send('data: 1\n\n')).toBe(false);
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk;
  });
  accept = (next) => next.end('next');
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
  await eventually(() => text.endsWith('next'));
  expect(text).toMatch(/^HTTP\/1.1 200 OK\r\ncontent-type: text\/event-stream\r\n/);
  expect(text).not.toContain('data: 1');
});

test('a large text arrives whole, characters unbroken', async () => {
  const { socket, res } = await opened();
  const stream = openStream(res, UNLIMITED);
  const text = `data: ${'ü😀'.repeat(200_000)}\n\n`;
  let received = Buffer.alloc(0);
  const whole = new Promise<void>((resolve) => {
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.includes('\n\n\r\n')) resolve();
    });
  });
  expect(await stream.send(text)).toBe(true);
  await whole;
  stream.end();
  const body = Buffer.concat(unchunk(received));
  expect(body.toString()).toBe(text);
});

/** The chunks of a chunked body, as far as it is there. */
function unchunk(bytes: Buffer): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = bytes.indexOf('\r\n\r\n') + 4; at < bytes.length; ) {
    const end = bytes.indexOf('\r\n', at);
    const size = Number.parseInt(bytes.toString('latin1', at, end), 16);
    if (!(size > 0)) break;
    chunks.push(bytes.subarray(end + 2, end + 2 + size));
    at = end + 2 + size + 2;
  }
  return chunks;
}

test('a reader that takes every text at once leaves turns of the event loop to other work', async () => {
  const { socket, res } = await opened();
  const stream = openStream(res, UNLIMITED);
  socket.resume();
  let turns = 0;
  let counting = setImmediate(function count() {
    turns += 1;
    counting = setImmediate(count);
  });
  for (let n = 0; n < 50; n++) expect(await stream.send('data: 1\n\n')).toBe(true);
  clearImmediate(counting);
  expect(turns).toBeGreaterThanOrEqual(49);
  stream.end();
});

test('a reader that stops reading is disconnected, and at most one piece waits for it', async () => {
  const { socket, res } = await opened();
  socket.pause();
  const stream = openStream(res, UNLIMITED, 50);
  const closed = new Promise((resolve) => res.once('close', resolve));
  let most = 0;
  const text = 'x'.repeat(1024 * 1024);
  for (let i = 0; i < 64; i += 1) {
    const sent = stream.send(text);
    most = Math.max(most, res.writableLength);
    if (!(await sent)) break;
  }
  await closed;
  expect(most).toBeLessThan(256 * 1024);
  expect(await stream.send('x')).toBe(false);
});

test('a reader that disconnects ends the wait', async () => {
  const { socket, res } = await opened();
  socket.pause();
  const stream = openStream(res, UNLIMITED, 60_000);
  const sent = stream.send('x'.repeat(32 * 1024 * 1024));
  socket.destroy();
  expect(await sent).toBe(false);
});

test('a text counts as memory while a slow reader has not taken it; a reader that keeps up needs none', async () => {
  const budget = createByteBudget(64 * 1024 * 1024);
  const hold = createHold(budget, 'reader');
  const taken: number[] = [];
  const recorded = Object.create(hold, {
    take: { value: (bytes: number) => hold.take(bytes) && taken.push(bytes) > 0 },
  });
  const { socket, res } = await opened();
  const stream = openStream(res, recorded, 60_000);
  socket.resume();
  for (let i = 0; i < 100; i += 1) expect(await stream.send(`data: ${i}\n\n`)).toBe(true);
  // The kernel may take a text a moment later on a busy machine.
  expect(taken.splice(0).length).toBeLessThan(10);
  socket.pause();
  const bytes = 32 * 1024 * 1024;
  const sent = stream.send('x'.repeat(bytes));
  await eventually(() => budget.used > 0);
  expect(budget.used).toBe(bytes);
  socket.resume();
  expect(await sent).toBe(true);
  expect([taken, budget.used]).toEqual([[bytes], 0]);
});

test('a text is not copied for each reader that takes it slowly', async () => {
  const text = 'x'.repeat(32 * 1024 * 1024);
  const before = process.memoryUsage().arrayBuffers;
  const sending: Promise<boolean>[] = [];
  const budget = createByteBudget(1024 * 1024 * 1024);
  for (let n = 1; n <= 4; n++) {
    const { socket, res } = await opened();
    socket.pause();
    sending.push(openStream(res, createHold(budget), 60_000).send(text));
    await eventually(() => budget.used === n * text.length);
  }
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(text.length);
  for (const socket of sockets.splice(0)) socket.destroy();
  expect(await Promise.all(sending)).toEqual([false, false, false, false]);
});

test('a slow reader is disconnected when there is no memory for its text', async () => {
  const { socket, res } = await opened();
  socket.pause();
  const stream = openStream(res, createHold({ ...createByteBudget(1), tryTake: () => undefined }), 60_000);
  expect(await stream.send('data: 1\n\n')).toBe(true);
  expect(await stream.send('x'.repeat(32 * 1024 * 1024))).toBe(false);
  expect(res.destroyed).toBe(true);
});
