import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import { afterEach, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { connect as connectTo } from './connection.ts';
import { createFrameBlocks } from './frame-blocks.ts';
import { createFrameChannel, type FrameChannel, type FrameChannelOptions } from './frame-channel.ts';
import { createFrameParser, type FrameParser } from './frame-parser.ts';
import { type ChildMessage, maxFrameBytes } from './frame-schema.ts';
import { encodeFrame } from './frames.fixture.ts';
import { FRAME } from './protocol.ts';
import { createTurns } from './turns.ts';

interface Wire {
  child: net.Socket;
  channel: FrameChannel;
  messages: ChildMessage[];
  violations: string[];
  bytes: number;
}

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function openParser(): FrameParser {
  const parser = createFrameParser();
  cleanups.push(() => parser.close());
  return parser;
}

/** A channel over a real connection. */
async function connect(options: Partial<FrameChannelOptions> = {}): Promise<Wire> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const connection = connectTo({ port: (server.address() as AddressInfo).port, host: '127.0.0.1' });
  const [child] = (await once(server, 'connection')) as [net.Socket];
  child.on('error', () => {});
  server.close();
  const wire: Omit<Wire, 'channel'> = { child, messages: [], violations: [], bytes: 0 };
  const channel = createFrameChannel({
    connection,
    blocks: createFrameBlocks(),
    turns: createTurns(),
    parser: options.parser ?? openParser(),
    owner: () => 'u_1',
    maxBytes: (type) => maxFrameBytes(type, undefined),
    onBytes(count) {
      wire.bytes += count;
    },
    makeRoom: () => undefined,
    onMessage: (message) => void wire.messages.push(message),
    onViolation: (what) => void wire.violations.push(what),
    ...options,
  });
  cleanups.push(() => {
    channel.close();
    child.destroy();
    connection.socket.destroy();
  });
  return Object.assign(wire, { channel });
}

const line = (msg: string) => encodeFrame(FRAME.log, { ts: 1, level: 'info', msg });

function emit(payload: string): Buffer {
  const head = Buffer.from(
    JSON.stringify({ id: null, name: '', summary: null, ts: null, at: 1, delivery_ts: null }),
  );
  const frame = Buffer.alloc(9);
  frame.writeUInt32LE(5 + head.length + Buffer.byteLength(payload), 0);
  frame[4] = FRAME.emit;
  frame.writeUInt32LE(head.length, 5);
  return Buffer.concat([frame, head, Buffer.from(payload)]);
}

const texts = ({ messages }: Wire) =>
  messages.map((message) =>
    message.type === 'log' ? message.line.msg : message.type === 'emit' ? message.emit.payload.length : '',
  );

test('large and small frames are read in order, with the connection paused meanwhile', async () => {
  const wire = await connect();
  const payload = JSON.stringify('x'.repeat(3_000_000));
  wire.child.write(Buffer.concat([line('a'), emit(payload), line('b'), emit('1'), emit(payload), line('c')]));
  const size = payload.length;
  await eventually(() => expect(texts(wire)).toEqual(['a', size, 'b', 1, size, 'c']));
  expect(wire.violations).toEqual([]);
});

test('very many small frames arrive in order and do not block the event loop', async () => {
  const wire = await connect();
  let turns = 0;
  const count = setInterval(() => {
    turns += 1;
  }, 0);
  cleanups.push(() => clearInterval(count));
  const lines = Array.from({ length: 30_000 }, (_, n) => String(n));
  wire.child.write(Buffer.concat(lines.map(line)));
  await eventually(() => expect(wire.messages).toHaveLength(lines.length));
  expect(texts(wire)).toEqual(lines);
  expect(turns).toBeGreaterThan(5);
});

test('without room nothing more is read, and then everything in order', async () => {
  const wanted: number[] = [];
  const given = Promise.withResolvers<void>();
  let isFull = true;
  const wire = await connect({
    makeRoom(bytes) {
      wanted.push(bytes);
      return isFull && bytes > 1_000_000 ? given.promise : undefined;
    },
  });
  const payload = JSON.stringify('x'.repeat(3_000_000));
  const end = Promise.withResolvers<void>();
  wire.child.write(Buffer.concat([line('a'), emit(payload), line('b')]), () => end.resolve());
  await eventually(() => expect(Math.max(...wanted)).toBeGreaterThan(2_900_000));
  expect(texts(wire)).toEqual(['a']);
  const read = wire.bytes;
  // The frame exceeds what the kernel holds of a connection only in part, so the reader itself has to stop.
  await new Promise(setImmediate);
  expect(wire.bytes).toBe(read);
  expect(read).toBeLessThan(1_000_000);
  isFull = false;
  given.resolve();
  await end.promise;
  await eventually(() => expect(texts(wire)).toEqual(['a', payload.length, 'b']));
  await wire.channel.drained();
});

test('a frame that stays incomplete is refused, a complete one is not', async () => {
  const wire = await connect({ maxPartialMs: 200 });
  const frame = line('a');
  for (const byte of frame) wire.child.write(Buffer.of(byte));
  await eventually(() => expect(texts(wire)).toEqual(['a']));
  wire.child.write(frame.subarray(0, 10));
  await eventually(() => expect(wire.violations).toEqual(['half a frame']));
  expect(wire.bytes).toBe(frame.length + 10);
});

test.each([
  ['a large frame that is not JSON', Buffer.concat([emit('"x'.repeat(100_000))])],
  ['a large frame that is nested too deeply', emit(`${'['.repeat(50_000)}${']'.repeat(50_000)}`)],
  ['a small frame that is not JSON', emit('{')],
  [
    'an end frame that is too large',
    Buffer.concat([Buffer.from([0, 0, 32, 0, FRAME.end]), Buffer.alloc(10)]),
  ],
])('%s is refused, and no further frame is read', async (_name, bytes) => {
  const wire = await connect();
  wire.child.write(Buffer.concat([line('before'), bytes, line('behind')]));
  await eventually(() => expect(wire.violations).toHaveLength(1));
  await wire.channel.drained();
  expect(texts(wire)).toEqual(['before']);
});

test('a frame that exceeds the memory of the thread affects only its sender', async () => {
  const parser = openParser();
  const first = await connect({ parser, maxBytes: () => 2 ** 31 });
  const second = await connect({ parser });
  // Each pair of brackets becomes an array.
  first.child.write(emit(`[${'[],'.repeat(15_000_000)}[]]`));
  second.child.write(emit(JSON.stringify('x'.repeat(100_000))));
  await eventually(() => expect(first.violations).toHaveLength(1));
  await eventually(() => expect(texts(second)).toEqual([100_002]));
  second.child.write(line('after'));
  await eventually(() => expect(texts(second)).toEqual([100_002, 'after']));
});

test('a fault of the platform in handling a message closes only that channel', async () => {
  const failing = await connect({
    onMessage() {
      throw new Error('a bug');
    },
  });
  failing.child.write(line('a'));
  await eventually(() => expect(failing.violations).toEqual([expect.stringContaining('a bug')]));
});
