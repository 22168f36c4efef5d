import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { MAX_LOOKUPS } from './names.ts';
import { type Client, echo, openRelay, serve } from './relay.fixture.ts';
import { encodePreamble, OPERATION } from './wire.ts';

const MB = 1024 * 1024;

/** What comes of a connection: `connected`, or the code and the text of the error. */
async function attempt(client: Client, port: number): Promise<string> {
  const { id } = client.connect('127.0.0.1', port);
  const answer = await client.answerTo(id);
  return 'failed' in answer ? `${answer.failed.code}: ${answer.failed.message}` : 'connected';
}

/** The relay serves this sandbox as if nothing else went on. */
async function isServed(client: Client, port: number): Promise<void> {
  const { id, socket, text } = client.connect('127.0.0.1', port);
  expect(await client.answerTo(id)).toHaveProperty('connected');
  socket.end('served');
  expect(await text).toBe('served');
}

describe('a sandbox has a limit', () => {
  test('of connections at the same time, which its error names', async () => {
    await using server = await serve(echo);
    await using relay = await openRelay({ limits: { connections: 3 } });
    const [client, other] = [await relay.client('a'), await relay.client('b')];
    const open = [1, 2, 3].map(() => client.connect('127.0.0.1', server.port));
    for (const { id } of open) expect(await client.answerTo(id)).toHaveProperty('connected');
    expect(await attempt(client, server.port)).toMatch(/^EMFILE: .*limit of 3 connections at the same time/);
    await isServed(other, server.port);
    open[0]!.socket.end();
    await open[0]!.text;
    await eventually(async () => (await attempt(client, server.port)) === 'connected');
    expect(relay.reports).toContainEqual({
      type: 'limit',
      slot: 'a',
      limit: '3 connections at the same time',
    });
  });

  test('of new connections per second, which its error names', async () => {
    await using server = await serve(echo);
    await using relay = await openRelay({ limits: { connectionsPerSecond: 20, connectionBurst: 4 } });
    const [client, other] = [await relay.client('a'), await relay.client('b')];
    const outcomes = await Promise.all(Array.from({ length: 40 }, () => attempt(client, server.port)));
    expect(outcomes.filter((outcome) => outcome === 'connected').length).toBeGreaterThanOrEqual(4);
    expect(outcomes.at(-1)).toMatch(/^EAGAIN: .*limit of 20 new connections per second/);
    await isServed(other, server.port);
    await eventually(async () => (await attempt(client, server.port)) === 'connected');
  });

  test.each(['sent', 'received'])(
    'of bytes that are %s per run, which its error names',
    async (direction) => {
      await using server = await serve((socket) => {
        if (direction === 'sent') socket.resume();
        else for (let n = 0; n < 8; n += 1) socket.write(Buffer.alloc(MB));
      });
      await using other = await serve(echo);
      await using relay = await openRelay({ limits: { bytesPerRun: 2 * MB } });
      const [client, neighbour] = [await relay.client('a'), await relay.client('b')];
      const { id, socket } = client.connect('127.0.0.1', server.port);
      expect(await client.answerTo(id)).toHaveProperty('connected');
      if (direction === 'sent') socket.write(Buffer.alloc(8 * MB));
      const reset = await client.answerTo(id);
      expect(reset).toMatchObject({
        reset: { code: 'EDQUOT', message: expect.stringContaining('2 MB of network traffic per run') },
      });
      client.send({ acknowledge: id });
      expect(await attempt(client, other.port)).toMatch(/^EDQUOT: /);
      await isServed(neighbour, other.port);
      relay.relay.order({ type: 'endRun', slot: 'a' });
      await isServed(client, other.port);
    },
  );

  test('of look-ups per second', async () => {
    await using relay = await openRelay({
      limits: { lookupsPerSecond: 10, lookupBurst: 3 },
      names: { lookup: async () => [{ address: '1.1.1.1', family: 4 }], records: async () => [] },
    });
    const client = await relay.client('a');
    const answers = await Promise.all(Array.from({ length: 10 }, () => client.ask({ lookup: 'a.example' })));
    expect(answers[0]).toHaveProperty('found');
    expect(answers.at(-1)).toMatchObject({ failed: { code: 'EAGAIN' } });
  });

  test('of time without a byte', async () => {
    await using server = await serve(() => {});
    await using relay = await openRelay({ limits: { idleMs: 100 } });
    const client = await relay.client('a');
    const { id } = client.connect('127.0.0.1', server.port);
    expect(await client.answerTo(id)).toHaveProperty('connected');
    expect(await client.answerTo(id)).toMatchObject({ reset: { code: 'ETIMEDOUT' } });
  });

  test('of time to connect', async () => {
    const listener = spawn(
      process.execPath,
      [
        '-e',
        `const s = require('net').createServer(); s.listen(0, '127.0.0.1', 1, () => console.log(s.address().port))`,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const [line] = (await once(createInterface(listener.stdout), 'line')) as [string];
    const port = Number(line);
    // Stopped, it takes nobody from its queue; full, the queue answers nobody.
    listener.kill('SIGSTOP');
    const queue = Array.from({ length: 4 }, () => connect(port, '127.0.0.1').on('error', () => {}));
    try {
      await once(queue[0]!, 'connect');
      await using relay = await openRelay({ limits: { connectMs: 150 } });
      const client = await relay.client('a');
      const { id } = client.connect('127.0.0.1', port);
      expect(await client.answerTo(id)).toMatchObject({
        failed: { code: 'ETIMEDOUT', syscall: 'connect', address: '127.0.0.1', port },
      });
    } finally {
      for (const socket of queue) socket.destroy();
      listener.kill('SIGKILL');
      await once(listener, 'close');
    }
  });
});

describe('a hostile sandbox', () => {
  test('that sends its preamble slowly, or none, is disconnected', async () => {
    await using server = await serve(echo);
    await using relay = await openRelay({ limits: { preambleMs: 100 } });
    const [, other] = [await relay.client('a'), await relay.client('b')];
    const slow = connect(relay.path('a'));
    const closed = new Promise((resolve) =>
      slow
        .on('error', () => {})
        .on('close', resolve)
        .resume(),
    );
    slow.write(Buffer.from([OPERATION.connect, 0, 0]));
    await isServed(other, server.port);
    await closed;
  });

  test.each([
    ['an unknown operation', Buffer.from([9, 0, 0])],
    ['garbage', Buffer.alloc(4096, 0xff)],
    [
      'a malformed host',
      encodePreamble({ operation: OPERATION.connect, channel: 7, id: 1, port: 80, host: 'a\r\nb' }),
    ],
    [
      'a channel that is not there',
      encodePreamble({ operation: OPERATION.connect, channel: 99, id: 1, port: 80, host: '1.1.1.1' }),
    ],
  ])('that sends %s is disconnected', async (_name, bytes) => {
    await using relay = await openRelay();
    await relay.client('a');
    const socket = connect(relay.path('a'));
    const closed = new Promise((resolve) =>
      socket
        .on('error', () => {})
        .on('close', resolve)
        .resume(),
    );
    socket.write(bytes);
    await closed;
  });

  test.each([
    ['no JSON', 'x'],
    ['no question', '{"id":1}'],
    ['null', 'null'],
    ['a number out of range', '{"id":1e99,"lookup":"a"}'],
    ['a malformed name', '{"id":1,"lookup":"a b"}'],
    ['a long line', 'x'.repeat(5000)],
  ])('that asks %s loses its channel', async (_name, line) => {
    await using relay = await openRelay();
    const { channel } = await relay.client('a');
    const ended = new Promise((resolve) => channel.on('end', resolve));
    channel.write(`${line}\n`);
    await ended;
  });

  test('that connects ten thousand times does not keep others from the network', async () => {
    await using server = await serve(echo);
    await using relay = await openRelay();
    const other = await relay.client('b');
    await relay.client('a');
    let over = 0;
    const flood = Array.from(
      { length: 10_000 },
      () =>
        new Promise<void>((resolve) => {
          const socket = connect(relay.path('a'));
          socket
            .on('error', () => {})
            .on('close', () => {
              over += 1;
              resolve();
            });
          socket.resume().end();
        }),
    );
    await isServed(other, server.port);
    await Promise.all(flood);
    expect(over).toBe(10_000);
    await isServed(other, server.port);
    // It is served again once it stops.
    await eventually(async () => {
      const socket = connect(relay.path('a'));
      const isBack = await new Promise<boolean>((resolve) => {
        socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
      });
      socket.destroy();
      return isBack;
    });
  });

  test('names hundreds of destinations, and the report stays short', async () => {
    await using relay = await openRelay({
      allowNetworks: [],
      limits: { connectionsPerSecond: 1e6, connectionBurst: 1e6 },
    });
    const client = await relay.client('a');
    for (let n = 0; n < 200; n += 1) {
      const { id } = client.connect(`10.0.0.${n}`, 80);
      await client.answerTo(id);
    }
    relay.relay.order({ type: 'endRun', slot: 'a' });
    const report = relay.reports.find(({ type }) => type === 'traffic');
    const destinations = report?.type === 'traffic' ? report.destinations : [];
    expect(destinations).toHaveLength(65);
    expect(destinations.at(-1)).toMatchObject({ host: '*', refused: 136 });
  });
});

describe('a slow name server', () => {
  /** Names below `slow.` are never answered. */
  const names = {
    pending: 0,
    lookup(host: string) {
      if (host !== 'fast.example') names.pending += 1;
      return host === 'fast.example'
        ? Promise.resolve([{ address: '127.0.0.1', family: 4 as const }])
        : new Promise<never>(() => {});
    },
    records: async () => [],
  };

  test('holds up the owner who asks for its names, and nobody else', async () => {
    names.pending = 0;
    await using relay = await openRelay({ names });
    const clients = await Promise.all([1, 2, 3].map((n) => relay.client(`a${n}`, 'attacker')));
    for (const client of clients)
      for (let n = 0; n < 100; n += 1) void client.ask({ lookup: `n${n}.slow.example` });
    await eventually(() => names.pending > 0);
    const other = await relay.client('b', 'other');
    expect(await other.ask({ lookup: 'fast.example' })).toHaveProperty('found');
    // Half of what there is for all code.
    expect(names.pending).toBeLessThanOrEqual(MAX_LOOKUPS / 2);
  });

  test('holds back so many questions of a sandbox, which the error of the next one names', async () => {
    await using relay = await openRelay({ names, limits: { pendingLookups: 3 } });
    const client = await relay.client('a');
    for (let n = 0; n < 3; n += 1) void client.ask({ lookup: 'x.slow.example' });
    expect(await client.ask({ lookup: 'fast.example' })).toMatchObject({
      failed: { code: 'EAGAIN', message: expect.stringContaining('limit of 3 look-ups at the same time') },
    });
  });
});

test('a target with many addresses takes a few sockets', async () => {
  await using server = await serve(echo, '127.0.0.1');
  const refusing = Array.from({ length: 20 }, (_, n) => `127.0.1.${n + 1}`);
  const tried = async (addresses: string[]) => {
    await using relay = await openRelay();
    const client = await relay.client('a');
    const { id } = client.connect(addresses.join(','), server.port);
    // Awaited here: the relay is closed at the end of this function.
    return await client.answerTo(id);
  };
  expect(await tried([...refusing.slice(0, 7), '127.0.0.1'])).toHaveProperty('connected');
  expect(await tried([...refusing.slice(0, 8), '127.0.0.1'])).toHaveProperty('failed');
});

test('a new channel does not start the limit of lines anew', async () => {
  await using relay = await openRelay({ limits: { linesPerSecond: 1, lineBurst: 50 } });
  await relay.client('a');
  const answersTo = async (lines: number) => {
    const socket = connect(relay.path('a'));
    socket.on('error', () => {});
    socket.write(encodePreamble({ operation: OPERATION.control, channel: 9, id: 0, port: 0, host: '' }));
    for (let id = 0; id < lines; id += 1) socket.write(`{"id":${id},"lookup":"127.0.0.1"}\n`);
    let text = '';
    socket.on('data', (chunk) => {
      text += String(chunk);
    });
    const closed = once(socket, 'close');
    await Promise.race([closed, eventually(() => text.split('\n').length > lines)]);
    const { destroyed } = socket;
    socket.destroy();
    return destroyed ? 'disconnected' : 'answered';
  };
  expect(await answersTo(30)).toBe('answered');
  expect(await answersTo(30)).toBe('disconnected');
});

test('a report tells host, port, connections and bytes of each destination, once', async () => {
  await using server = await serve(echo);
  await using relay = await openRelay();
  const client = await relay.client('a');
  await isServed(client, server.port);
  await isServed(client, server.port);
  relay.relay.order({ type: 'endRun', slot: 'a' });
  relay.relay.order({ type: 'endRun', slot: 'a' });
  expect(relay.reports).toEqual([
    { type: 'used', slot: 'a' },
    {
      type: 'traffic',
      slot: 'a',
      destinations: [
        { host: '127.0.0.1', port: server.port, connections: 2, refused: 0, sent: 12, received: 12 },
      ],
    },
  ]);
});
