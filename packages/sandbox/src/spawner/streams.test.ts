import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { STREAMS, type StreamName, streamHeader } from './messages.ts';
import { acceptStreams, type Streams } from './streams.ts';

let directory: TempDir;
let path: string;
let streams: Streams | undefined;
const clients: Socket[] = [];
beforeEach(async () => {
  directory = await tempDir();
  path = join(directory.path, 's');
});
afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  streams?.close();
  await directory.remove();
});

async function listen(arrivalMs?: number): Promise<Streams> {
  streams = acceptStreams(path, 'token', arrivalMs);
  await streams.listening;
  return streams;
}

function open(header: string): Socket {
  const client = createConnection(path).on('error', () => {});
  client.resume().write(header);
  clients.push(client);
  return client;
}
const openStream = (id: number, name: StreamName) => open(streamHeader('token', id, name));

test('the streams of a process are taken in their order, before and after they arrive', async () => {
  const { take } = await listen();
  const early = take(1);
  for (const name of ['frames', 'stdout', 'stderr'] as const) for (const id of [1, 2]) openStream(id, name);
  for (const [id, taken] of [[1, await early] as const, [2, await take(2)] as const]) {
    for (const [n, socket] of taken.entries()) {
      const client = clients[{ frames: 0, stdout: 2, stderr: 4 }[STREAMS[n]!] + id - 1]!;
      const closed = once(client, 'close');
      socket.destroy();
      await closed;
    }
  }
});

test('a process whose streams do not all arrive is given up, with those that did', async () => {
  const { take } = await listen(200);
  const clientEnds = (['stdout', 'frames'] as const).map((name) => once(openStream(1, name), 'close'));
  await expect(take(1)).rejects.toThrow('the streams of the process did not arrive');
  await Promise.all(clientEnds);
});

test('a connection that sends no header is closed', async () => {
  await listen(200);
  await once(open(''), 'close');
});

test('streams of a start that was given up do not stay, and the path of a killed spawner is used again', async () => {
  await listen();
  streams!.close();
  const { take } = await listen();
  const abandoned = openStream(1, 'stdout');
  abandoned.end();
  await once(abandoned, 'close');
  const taking = take(1);
  for (const name of STREAMS) openStream(1, name);
  expect(await taking).toHaveLength(3);
  for (const socket of await taking) socket.destroy();
});
