import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createChannel } from './channel.ts';

const ANSWER = { id: 1, failed: { code: 'x', syscall: 'x', message: 'm'.repeat(10_000) } };

/** A listening socket of a relay; `open` gives both ends of a new connection. */
async function listen() {
  const directory = await tempDir();
  const path = join(directory.path, 's');
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    async open(): Promise<{ inside: Socket; socket: Socket }> {
      const accepted = once(server, 'connection');
      const inside = connect(path);
      const [socket] = (await accepted) as [Socket];
      return { inside, socket };
    },
    async [Symbol.asyncDispose]() {
      await new Promise((resolve) => server.close(resolve));
      await directory[Symbol.asyncDispose]();
    },
  };
}

test('answers that a sandbox does not read are limited for all its channels together', async () => {
  await using relay = await listen();
  const opened: Socket[] = [];
  const unread = { bytes: 0 };
  async function open() {
    const { inside, socket } = await relay.open();
    opened.push(inside, socket);
    socket.on('error', () => {});
    return {
      inside,
      socket,
      channel: createChannel(
        socket,
        () => true,
        unread,
        () => () => {},
        () => {},
      ),
    };
  }
  const [first, second, other] = [await open(), await open(), await open()];
  // The kernel takes some answers, too.
  for (let n = 0; n < 1000 && !first.socket.destroyed; n += 1) {
    first.channel.send(ANSWER);
    expect(unread.bytes).toBeLessThan(200_000);
    if (unread.bytes > 140_000) break;
  }
  second.channel.send(ANSWER);
  expect(second.socket.destroyed).toBe(true);
  // The answers of the first channel are read: the sandbox may be answered again.
  first.inside.resume();
  await eventually(() => unread.bytes === 0);
  other.channel.send(ANSWER);
  await once(other.inside, 'data');
  for (const socket of opened) socket.destroy();
});

test('unread answers of a channel that has ended do not count', async () => {
  await using relay = await listen();
  const { inside, socket } = await relay.open();
  socket.on('error', () => {});
  const unread = { bytes: 0 };
  const channel = createChannel(
    socket,
    () => true,
    unread,
    () => () => {},
    () => {},
  );
  while (unread.bytes < 100_000) channel.send(ANSWER);
  inside.destroy();
  await eventually(() => socket.destroyed && unread.bytes === 0);
});

test('beyond the share of its owner, a sandbox has one unread answer', async () => {
  await using relay = await listen();
  const { inside, socket } = await relay.open();
  const unread = { bytes: 0 };
  const channel = createChannel(
    socket,
    () => true,
    unread,
    () => undefined,
    () => {},
  );
  channel.send(ANSWER);
  expect(socket.destroyed).toBe(false);
  channel.send(ANSWER);
  expect(socket.destroyed).toBe(true);
  inside.destroy();
});
