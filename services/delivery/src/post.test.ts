import { type AddressInfo, createServer, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createEgress, type Egress } from '@wellspring/http/egress';
import { createPost } from './post.ts';

/** A receiver that sends these bytes, then `more` for as long as they are taken. */
async function answer(first: string, more: string) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)));
    const write = () => {
      while (!socket.destroyed && socket.write(more));
    };
    socket.once('data', () => {
      socket.write(first);
      socket.on('drain', write);
      write();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const reply = await createPost(
    egress,
    60_000,
  )({
    owner: 'u_1',
    url: `http://127.0.0.1:${port}`,
    headers: {},
    body: '1',
  });
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
  return reply;
}

let egress: Egress;
beforeEach(() => {
  egress = createEgress({ allowNetworks: ['127.0.0.0/8'] });
});
afterEach(() => egress.close());

const OK = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n';

test.each([
  ['line feeds', '', '\r\n'.repeat(4096)],
  ['the reason of a status', 'HTTP/1.1 200 ', 'a'.repeat(8192)],
])('a receiver that never ends %s is given up', async (_, first, more) => {
  expect(await answer(first, more)).toMatchObject({
    status: null,
    error: 'The answer has more than 256 KB.',
  });
});

test.each(['100 Continue', '103 Early Hints'])(
  'a receiver that sends %s without end is given up',
  async (status) => {
    const head = `HTTP/1.1 ${status}\r\nlink: x\r\n\r\n`;
    expect(await answer(head, head)).toMatchObject({
      status: null,
      error: 'too many informational responses',
    });
  },
);

test.each([
  ['body', `2000\r\n${'a'.repeat(8192)}\r\n`],
  ['framing of a body', ';a'.repeat(4096)],
])('the status decides when the %s never ends', async (_, more) => {
  expect(await answer(more.startsWith(';') ? `${OK}1` : OK, more)).toMatchObject({
    status: 200,
    error: null,
  });
});

/** A receiver on a thread of its own. It answers once this thread waits for `answered`. */
const RECEIVER = `
  const { createServer } = require('node:net');
  const { parentPort, workerData: { waiting, answered } } = require('node:worker_threads');
  const server = createServer((socket) => socket.on('error', () => {}).once('data', () => {
    parentPort.postMessage('received');
    Atomics.wait(waiting, 0, 0);
    socket.write('HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n', () => {
      Atomics.store(answered, 0, 1);
      Atomics.notify(answered, 0);
    });
  }));
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));`;

test.each([
  ['its time limit', (_: AbortController) => {}],
  ['another attempt', (ended: AbortController) => ended.abort('ended')],
])(
  'an answer that came while the process did not run counts, although %s ends the attempt',
  async (_, end) => {
    const flag = () => new Int32Array(new SharedArrayBuffer(4));
    const [waiting, answered, never] = [flag(), flag(), flag()];
    const receiver = new Worker(RECEIVER, { eval: true, workerData: { waiting, answered } });
    const message = () => new Promise((resolve) => receiver.once('message', resolve));
    try {
      const url = `http://127.0.0.1:${await message()}`;
      const received = message();
      const ended = new AbortController();
      const timeoutMs = 1_000;
      const reply = createPost(egress, timeoutMs)(
        { owner: 'u_1', url, headers: {}, body: '1' },
        ended.signal,
      );
      await received;
      Atomics.store(waiting, 0, 1);
      Atomics.notify(waiting, 0);
      Atomics.wait(answered, 0, 0);
      Atomics.wait(never, 0, 0, timeoutMs);
      end(ended);
      expect(await reply).toMatchObject({ status: 200, error: null });
    } finally {
      await receiver.terminate();
    }
  },
);

test('a status 101, which was not asked for, is an error in plain words', async () => {
  const upgrade = 'HTTP/1.1 101 Switching Protocols\r\n\r\n';
  const { status, error } = await answer(upgrade, 'x');
  expect([status, error]).toEqual([null, 'the answer does not fit the request']);
});
