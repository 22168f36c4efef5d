import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, test } from '@jest/globals';
import { openRelay, serve } from './relay.fixture.ts';
import { encodePreamble, OPERATION } from './wire.ts';

const MB = 1024 * 1024;
const CHUNKS = 64;

/** Writes 64 MB. @returns the bytes that the relay has read, or that the socket holds, until it was closed */
async function bytesTakenOf(socket: Socket): Promise<number> {
  let taken = 0;
  for (let n = 0; n < CHUNKS; n += 1) {
    socket.write(Buffer.alloc(MB), (error) => {
      if (!error) taken += MB;
    });
  }
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve));
  return taken;
}

test('the relay reads nothing after the request of a warm-up', async () => {
  await using relay = await openRelay();
  await relay.client('a');
  const socket = connect({ path: relay.path('a'), allowHalfOpen: true }).on('error', () => {});
  socket.write(encodePreamble({ operation: OPERATION.warm, channel: 7, id: 1, port: 0, host: '' }));
  socket.write('GET / HTTP/1.1\r\n\r\n');
  const [answer] = (await once(socket, 'data')) as [Buffer];
  expect(String(answer)).toContain('200 OK');
  expect(await bytesTakenOf(socket)).toBeLessThan(4 * MB);
});

test('the relay reads nothing of a connection that the network has reset, nor one beyond a limit', async () => {
  await using server = await serve((socket) => void socket.once('data', () => socket.resetAndDestroy()));
  await using sink = await serve((socket) => void socket.resume());
  await using relay = await openRelay({ limits: { bytesPerRun: 2 * MB } });
  const client = await relay.client('a');
  for (const { port } of [server, sink]) {
    const { id, socket, answer } = await client.dial('127.0.0.1', port);
    expect(answer).toHaveProperty('connected');
    socket.write(Buffer.alloc(port === sink.port ? 4 * MB : 1));
    expect(await client.answerTo(id)).toHaveProperty('reset');
    // The code does not acknowledge the reset.
    expect(await bytesTakenOf(socket)).toBeLessThan(4 * MB);
  }
});
