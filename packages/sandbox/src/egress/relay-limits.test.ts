import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { MAX_LOOKUPS, systemNames } from './names.ts';
import { attempt, echo, isServed, openRelay, openSilentPort, serve } from './relay.fixture.ts';
import { encodePreamble, OPERATION } from './wire.ts';

const MB = 1024 * 1024;

describe('the limit of a sandbox', () => {
  test('of concurrent connections is named in the error', async () => {
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
      sandbox: 'a',
      limit: '3 connections at the same time',
    });
  });

  test('of new connections per second is named in the error', async () => {
    await using server = await serve(echo);
    await using relay = await openRelay({ limits: { connectionsPerSecond: 20, connectionBurst: 4 } });
    const [client, other] = [await relay.client('a'), await relay.client('b')];
    const outcomes = await Promise.all(Array.from({ length: 40 }, () => attempt(client, server.port)));
    expect(outcomes.filter((outcome) => outcome === 'connected').length).toBeGreaterThanOrEqual(4);
    const refused = outcomes.filter((outcome) => outcome !== 'connected');
    expect(refused.at(-1)).toBe(outcomes.at(-1));
    for (const one of refused) expect(one).toMatch(/^EAGAIN: .*limit of 20 new connections per second/);
    await isServed(other, server.port);
    await eventually(async () => (await attempt(client, server.port)) === 'connected');
  });

  test.each(['sent', 'received'])('of bytes %s per run is named in the error', async (direction) => {
    await using server = await serve((socket) => {
      if (direction === 'sent') socket.resume();
      else for (let n = 0; n < 8; n += 1) socket.write(Buffer.alloc(MB));
    });
    await using other = await serve(echo);
    await using relay = await openRelay({ limits: { bytesPerRun: 2 * MB } });
    const [client, neighbour] = [await relay.client('a'), await relay.client('b')];
    const { id, socket, answer } = await client.dial('127.0.0.1', server.port);
    expect(answer).toHaveProperty('connected');
    if (direction === 'sent') socket.write(Buffer.alloc(8 * MB));
    const reset = await client.answerTo(id);
    expect(reset).toMatchObject({
      reset: { code: 'EDQUOT', message: expect.stringContaining('2 MB of network traffic per run') },
    });
    client.send({ acknowledge: id });
    expect(await attempt(client, other.port)).toMatch(/^EDQUOT: /);
    await isServed(neighbour, other.port);
    relay.relay.order({ type: 'endRun', sandbox: 'a' });
    await isServed(client, other.port);
  });

  test('of look-ups per second is enforced', async () => {
    await using relay = await openRelay({
      limits: { lookupsPerSecond: 10, lookupBurst: 3 },
      names: { ...systemNames, lookup: async () => [{ address: '1.1.1.1', family: 4 }] },
    });
    const client = await relay.client('a');
    const answers = await Promise.all(Array.from({ length: 10 }, () => client.ask({ lookup: 'a.example' })));
    expect(answers[0]).toHaveProperty('found');
    const failed = answers.filter((answer) => !('found' in answer));
    expect(failed.at(-1)).toBe(answers.at(-1));
    for (const one of failed) expect(one).toMatchObject({ failed: { code: 'EAGAIN' } });
  });

  test('of idle time is enforced', async () => {
    await using server = await serve(() => {});
    await using relay = await openRelay({ limits: { idleMs: 100 } });
    const client = await relay.client('a');
    const { id, answer } = await client.dial('127.0.0.1', server.port);
    expect(answer).toHaveProperty('connected');
    expect(await client.answerTo(id)).toMatchObject({ reset: { code: 'ETIMEDOUT' } });
  });

  test('of connection time is enforced', async () => {
    await using silent = await openSilentPort();
    await using relay = await openRelay({ limits: { connectMs: 150 } });
    const client = await relay.client('a');
    const { port } = silent;
    expect((await client.dial('127.0.0.1', port)).answer).toMatchObject({
      failed: { code: 'ETIMEDOUT', syscall: 'connect', address: '127.0.0.1', port },
    });
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
    records: systemNames.records,
  };

  test('delays only the owner who uses its names', async () => {
    names.pending = 0;
    await using relay = await openRelay({ names });
    const clients = await Promise.all([1, 2, 3].map((n) => relay.client(`a${n}`, 'attacker')));
    for (const client of clients)
      for (let n = 0; n < 100; n += 1) void client.ask({ lookup: `n${n}.slow.example` });
    await eventually(() => names.pending > 0);
    const other = await relay.client('b', 'other');
    expect(await other.ask({ lookup: 'fast.example' })).toHaveProperty('found');
    // Half of the look-ups for all code.
    expect(names.pending).toBeLessThanOrEqual(MAX_LOOKUPS / 2);
  });

  test('causes an error that names the limit of concurrent look-ups', async () => {
    await using relay = await openRelay({ names, limits: { pendingLookups: 3 } });
    const client = await relay.client('a');
    for (let n = 0; n < 3; n += 1) void client.ask({ lookup: 'x.slow.example' });
    expect(await client.ask({ lookup: 'fast.example' })).toMatchObject({
      failed: { code: 'EAGAIN', message: expect.stringContaining('limit of 3 look-ups at the same time') },
    });
  });
});

test('of a target with many addresses only a few are tried', async () => {
  await using server = await serve(echo, '127.0.0.1');
  const refusing = Array.from({ length: 20 }, (_, n) => `127.0.1.${n + 1}`);
  const tried = async (addresses: string[]) => {
    await using relay = await openRelay();
    const client = await relay.client('a');
    return (await client.dial(addresses.join(','), server.port)).answer;
  };
  expect(await tried([...refusing.slice(0, 7), '127.0.0.1'])).toHaveProperty('connected');
  expect(await tried([...refusing.slice(0, 8), '127.0.0.1'])).toHaveProperty('failed');
});

test('a new channel does not reset the limit of lines', async () => {
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

test('a report contains host, port, connections and bytes of each destination, once', async () => {
  await using server = await serve(echo);
  await using relay = await openRelay();
  const client = await relay.client('a');
  await isServed(client, server.port);
  await isServed(client, server.port);
  relay.relay.order({ type: 'endRun', sandbox: 'a' });
  relay.relay.order({ type: 'endRun', sandbox: 'a' });
  expect(relay.reports).toEqual([
    { type: 'used', sandbox: 'a' },
    {
      type: 'traffic',
      sandbox: 'a',
      destinations: [
        { host: '127.0.0.1', port: server.port, connections: 2, refused: 0, sent: 12, received: 12 },
      ],
    },
  ]);
});
