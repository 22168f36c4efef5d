import type { Socket } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import type { Names } from './names.ts';
import { echo, isReached, openRelay, serve } from './relay.fixture.ts';
import type { FoundAddress } from './wire.ts';

const found = (...addresses: string[]): FoundAddress[] =>
  addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));

/** Answers of name servers that an attacker controls. */
const lyingNames = (answers: Record<string, FoundAddress[][]>): Names & { asked: string[] } => {
  const asked: string[] = [];
  return {
    asked,
    async lookup(host) {
      asked.push(host);
      const list = answers[host];
      if (!list)
        throw Object.assign(new Error('no'), { code: 'ENOTFOUND', syscall: 'getaddrinfo', hostname: host });
      return list.length > 1 ? list.shift()! : list[0]!;
    },
    records: async () => ({ aliases: [], records: [] }),
  };
};

describe('a connection', () => {
  test('passes bytes in both directions, and the end of one leaves the other open', async () => {
    await using server = await serve((socket) => {
      let heard = '';
      socket.on('data', (chunk) => {
        heard += String(chunk);
      });
      socket.on('end', () => socket.end(`heard ${heard}`));
    });
    await using relay = await openRelay();
    const client = await relay.client('a');
    const { id, socket, text, answer } = await client.dial('127.0.0.1', server.port);
    expect(answer).toEqual({
      id,
      connected: { address: '127.0.0.1', family: 4, port: server.port },
    });
    socket.end('hello');
    expect(await text).toBe('heard hello');
  });

  test('applies back-pressure', async () => {
    let paused: Socket | undefined;
    await using server = await serve((socket) => {
      socket.pause();
      paused = socket;
    });
    await using relay = await openRelay({ limits: { bytesPerRun: 1e9 } });
    const client = await relay.client('a');
    const { socket } = await client.dial('127.0.0.1', server.port);
    const chunk = Buffer.alloc(256 * 1024);
    let written = 0;
    // Much more than the buffers of the kernel and the relay.
    const total = 400 * chunk.length;
    let isHeldBack = false;
    socket.on('drain', () => {
      isHeldBack = false;
    });
    await eventually(() => {
      while (!isHeldBack && written < total) {
        isHeldBack = !socket.write(chunk);
        written += chunk.length;
      }
      const before = socket.writableLength;
      return new Promise((resolve) =>
        setImmediate(() => resolve(isHeldBack && before > 0 && socket.writableLength === before)),
      );
    });
    expect(written).toBeLessThan(total / 4);
    let heard = 0;
    paused!.on('data', (data) => {
      heard += data.length;
    });
    paused!.resume();
    socket.end();
    await eventually(() => heard === written);
  });

  test('that is reset on the network reports the reset after its bytes', async () => {
    await using server = await serve((socket) => {
      socket.write('first', () => setImmediate(() => socket.resetAndDestroy()));
    });
    await using relay = await openRelay();
    const client = await relay.client('a');
    const { id, text, answer } = await client.dial('127.0.0.1', server.port);
    expect(answer).toHaveProperty('connected');
    expect(await client.answerTo(id)).toMatchObject({ reset: { code: 'ECONNRESET', syscall: 'read' } });
    client.send({ acknowledge: id });
    expect(await text).toMatch(/^(first)?$/);
  });

  test('is closed on the network if its sandbox ends', async () => {
    await using server = await serve(() => {});
    await using relay = await openRelay();
    const client = await relay.client('a');
    const { id, socket } = await client.dial('127.0.0.1', server.port);
    await eventually(() => server.connections.length === 1);
    const ended = new Promise((resolve) => server.connections[0]!.on('end', resolve).resume());
    socket.destroy();
    client.send({ close: id });
    await ended;
  });

  test('delivers its last bytes if the sandbox closes immediately after them', async () => {
    let heard = '';
    await using server = await serve((socket) => {
      socket.on('data', (chunk) => {
        heard += String(chunk);
      });
    });
    await using relay = await openRelay();
    const client = await relay.client('a');
    const { id, socket } = await client.dial('127.0.0.1', server.port);
    socket.write('QUIT');
    socket.destroySoon();
    client.send({ close: id });
    await eventually(() => heard === 'QUIT');
  });

  test('to a port without listener fails as in Node', async () => {
    const server = await serve(() => {});
    await server[Symbol.asyncDispose]();
    await using relay = await openRelay({
      names: lyingNames({ 'two.example': [found('::1', '127.0.0.1')] }),
    });
    const client = await relay.client('a');
    const { answer: refused } = await client.dial('127.0.0.1', server.port);
    expect(refused).toMatchObject({
      failed: {
        code: 'ECONNREFUSED',
        syscall: 'connect',
        address: '127.0.0.1',
        port: server.port,
        message: `connect ECONNREFUSED 127.0.0.1:${server.port}`,
      },
    });
    const { answer: unknown } = await client.dial('nowhere.example', 80);
    expect(unknown).toMatchObject({
      failed: {
        code: 'ENOTFOUND',
        syscall: 'getaddrinfo',
        hostname: 'nowhere.example',
        message: 'getaddrinfo ENOTFOUND nowhere.example',
      },
    });
  });

  test('tries the addresses of a name in turn', async () => {
    await using server = await serve(echo);
    const names = lyingNames({ 'two.example': [found('127.0.0.2', '127.0.0.1')] });
    await using relay = await openRelay({ names });
    const client = await relay.client('a');
    const { socket, text, answer } = await client.dial('two.example', server.port);
    expect(answer).toMatchObject({ connected: { address: '127.0.0.1' } });
    socket.end('x');
    expect(await text).toBe('x');
  });
});

describe('hostile names', () => {
  test('are resolved once, so that only a checked address is dialled', async () => {
    await using first = await serve(echo, '127.0.0.3');
    await using canary = await serve(echo, '127.0.0.1', first.port);
    const rebinding = lyingNames({ 'rebind.example': [found('127.0.0.3'), found('127.0.0.1')] });
    await using relay = await openRelay({ allowNetworks: ['127.0.0.3/32'], names: rebinding });
    const client = await relay.client('a');
    const one = await client.dial('rebind.example', first.port);
    expect(one.answer).toMatchObject({ connected: { address: '127.0.0.3' } });
    expect(rebinding.asked).toEqual(['rebind.example']);
    const two = await client.dial('rebind.example', first.port);
    expect(two.answer).toMatchObject({ failed: { code: 'EACCES' } });
    expect(canary.connections).toHaveLength(0);
    // Positive control: the canary detects a connection.
    await isReached(canary);
  });

  test('with public and private addresses reach only the public ones', async () => {
    await using allowed = await serve(echo, '127.0.0.3');
    await using canary = await serve(echo, '127.0.0.1', allowed.port);
    const names = lyingNames({ 'mixed.example': [found('127.0.0.1', '::ffff:127.0.0.1', '127.0.0.3')] });
    await using relay = await openRelay({ allowNetworks: ['127.0.0.3/32'], names });
    const client = await relay.client('a');
    const { answer } = await client.dial('mixed.example', allowed.port);
    expect(answer).toMatchObject({ connected: { address: '127.0.0.3' } });
    expect(canary.connections).toHaveLength(0);
  });

  test('do not reveal private addresses in look-ups', async () => {
    const names = lyingNames({
      'inside.example': [found('10.1.2.3')],
      'mixed.example': [found('10.1.2.3', '1.1.1.1')],
    });
    await using relay = await openRelay({ names });
    const client = await relay.client('a');
    expect(await client.ask({ lookup: 'mixed.example' })).toMatchObject({ found: found('1.1.1.1') });
    const refused = await client.ask({ lookup: 'inside.example' });
    expect(refused).toMatchObject({ failed: { code: 'EACCES', hostname: 'inside.example' } });
    expect(JSON.stringify(refused)).not.toContain('10.1.2.3');
    expect(await client.ask({ resolve: '127.0.0.1', type: 'PTR' })).toMatchObject({ records: [] });
  });
});

describe('the platform', () => {
  test('is refused by address and by name even in allowed networks, and others are reached', async () => {
    await using listener = await serve(echo);
    await using broker = await serve(echo);
    await using other = await serve(echo);
    const names = lyingNames({
      'broker.internal': [found('127.0.0.1')],
      'alias.example': [found('127.0.0.1')],
      'x.hooks.example': [found('127.0.0.1')],
    });
    const platform = {
      names: [{ name: 'hooks.example', below: true }],
      listenerPorts: [listener.port],
      endpoints: [{ host: 'broker.internal', port: broker.port }],
    };
    await using relay = await openRelay({ platform, names });
    const client = await relay.client('a');
    const refused: [string, number][] = [
      ['127.0.0.1', listener.port],
      ['127.0.0.2', listener.port],
      ['0.0.0.0', listener.port],
      ['::1', listener.port],
      ['::ffff:127.0.0.1', listener.port],
      ['alias.example', listener.port],
      ['127.0.0.1', broker.port],
      ['127.9.9.9', broker.port],
      ['broker.internal', broker.port],
      ['alias.example', broker.port],
      ['x.hooks.example', other.port],
      ['127.0.0.1,127.0.0.2', listener.port],
    ];
    for (const [host, port] of refused) {
      const { answer } = await client.dial(host, port);
      expect({ host, answer }).toMatchObject({
        host,
        answer: { failed: { code: 'EACCES', message: expect.stringContaining(host) } },
      });
    }
    expect(listener.connections.length + broker.connections.length).toBe(0);
    expect((await client.dial('alias.example', other.port)).answer).toHaveProperty('connected');
    for (const server of [listener, broker]) await isReached(server);
  });
});

describe('networks of an organization', () => {
  test('are reached only by its sandboxes, and changes apply to running ones', async () => {
    await using server = await serve(echo);
    await using relay = await openRelay({ allowNetworks: [] });
    const [one, two] = [await relay.client('one', 'o_1'), await relay.client('two', 'o_2')];
    const codeOf = async (client: typeof one) => {
      const { socket, answer } = await client.dial('127.0.0.1', server.port);
      socket.destroy();
      return 'failed' in answer ? answer.failed.code : 'connected';
    };
    expect([await codeOf(one), await codeOf(two)]).toEqual(['EACCES', 'EACCES']);
    relay.relay.order({ type: 'owner', owner: 'o_1', networks: ['127.0.0.0/8'] });
    expect([await codeOf(one), await codeOf(two)]).toEqual(['connected', 'EACCES']);
    relay.relay.order({ type: 'owner', owner: 'o_1', networks: [] });
    expect(await codeOf(one)).toBe('EACCES');
  });
});

test('a connection of an unassigned sandbox waits for the assignment', async () => {
  await using server = await serve(echo);
  await using relay = await openRelay({ allowNetworks: [] });
  relay.relay.order({ type: 'owner', owner: 'o_1', networks: ['127.0.0.0/8'] });
  const client = await relay.client('a', 'unassigned');
  const { id } = client.connect('127.0.0.1', server.port);
  let isAnswered = false;
  const answer = client.answerTo(id).finally(() => {
    isAnswered = true;
  });
  // Meanwhile another sandbox of the relay is served.
  const other = await relay.client('b', 'o_1');
  expect((await other.dial('127.0.0.1', server.port)).answer).toHaveProperty('connected');
  expect(isAnswered).toBe(false);
  relay.relay.order({ type: 'assign', sandbox: 'a', owner: 'o_1' });
  expect(await answer).toHaveProperty('connected');
});
