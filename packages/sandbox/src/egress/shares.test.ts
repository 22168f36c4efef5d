import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import {
  attempt,
  type Client,
  echo,
  isServed,
  openRelay,
  openSilentPort,
  serve,
  type TestRelay,
} from './relay.fixture.ts';
import { encodePreamble, OPERATION } from './wire.ts';

const MB = 1024 * 1024;
const SANDBOXES = ['a1', 'a2', 'a3'];

const clientsOf = (relay: TestRelay, owner: string): Promise<Client[]> =>
  Promise.all(SANDBOXES.map((sandbox) => relay.client(sandbox, owner)));

const dialled: Socket[] = [];
afterEach(() => {
  for (const socket of dialled.splice(0)) socket.destroy();
});

/** A connection of a sandbox to the relay that does not read. */
function dial(relay: TestRelay, sandbox: string): Socket {
  const socket = connect({ path: relay.path(sandbox), allowHalfOpen: true }).on('error', () => {});
  dialled.push(socket);
  return socket;
}

describe('the sandboxes of one owner together', () => {
  test('have half of the connections, and the error names the limit', async () => {
    await using server = await serve(echo);
    await using relay = await openRelay({ limits: { totalConnections: 8 } });
    const clients = await clientsOf(relay, 'attacker');
    const open = [];
    for (const client of [...clients, clients[0]!]) open.push(await client.dial('127.0.0.1', server.port));
    expect(open.every(({ answer }) => 'connected' in answer)).toBe(true);
    for (const client of clients)
      expect(await attempt(client, server.port)).toMatch(
        /^EMFILE: .*limit of the owner's share of 8 connections/,
      );
    await isServed(await relay.client('b', 'other'), server.port);
    const limit = "the owner's share of 8 connections";
    expect(relay.reports).toContainEqual({ type: 'limit', sandbox: 'a3', limit });
    // Another one may use the connection that is given back.
    open[0]!.socket.end();
    await open[0]!.text;
    await eventually(async () => (await attempt(clients[2]!, server.port)) === 'connected');
  });

  test('have half of the attempts to connect, for which others wait', async () => {
    await using silent = await openSilentPort();
    await using server = await serve(echo);
    await using relay = await openRelay({ limits: { totalDials: 2, connectMs: 4_000 } });
    const clients = await clientsOf(relay, 'attacker');
    const outcomes = clients.map((client) => attempt(client, silent.port));
    await isServed(await relay.client('b', 'other'), server.port);
    const sorted = (await Promise.all(outcomes)).sort();
    expect(sorted[0]).toMatch(/^EAGAIN: .*limit of the owner's share of 2 connections being opened/);
    expect(sorted.at(-1)).toMatch(/^ETIMEDOUT: /);
    await isServed(clients[2]!, server.port);
  });

  test('have half of the sockets of the relay', async () => {
    await using server = await serve(echo);
    await using relay = await openRelay({ limits: { totalSockets: 32 } });
    await clientsOf(relay, 'attacker');
    let open = 0;
    const sockets = SANDBOXES.flatMap((sandbox) =>
      Array.from({ length: 20 }, () =>
        dial(relay, sandbox)
          .on('connect', () => {
            open += 1;
          })
          .on('end', () => {
            open -= 1;
          })
          .resume(),
      ),
    );
    // Sixteen, of which three are channels.
    await eventually(() => sockets.every(({ connecting }) => !connecting) && open === 13);
    await isServed(await relay.client('b', 'other'), server.port);
  });

  test('have half of the bytes that the relay holds, and the error names the limit', async () => {
    await using server = await serve(echo);
    await using source = await serve((socket) => void socket.write(Buffer.alloc(8 * MB)));
    await using relay = await openRelay({ limits: { totalUnsentBytes: MB } });
    const clients = await clientsOf(relay, 'attacker');
    const target = { channel: 7, port: source.port, host: '127.0.0.1' };
    const resets: unknown[] = [];
    const sockets = SANDBOXES.flatMap((sandbox, at) =>
      Array.from({ length: 12 }, (_, n) => {
        const id = 100 + n;
        const client = clients[at]!;
        client.answerTo(id).then(() => client.answerTo(id).then((answer) => void resets.push(answer)));
        const socket = dial(relay, sandbox);
        socket.write(encodePreamble({ operation: OPERATION.connect, id, ...target }));
        return socket;
      }),
    );
    await eventually(() => resets.length > 0);
    expect(resets[0]).toMatchObject({
      reset: { code: 'ENOBUFS', message: expect.stringContaining("the owner's share of 1 MB") },
    });
    await isServed(await relay.client('b', 'other'), server.port);
    // Connections that were closed hold nothing.
    for (const socket of sockets) socket.destroy();
    await eventually(async () => {
      const { answer, socket, text } = await clients[0]!.dial('127.0.0.1', server.port);
      socket.end('x'.repeat(100_000));
      return 'connected' in answer && (await text).length === 100_000;
    });
  });
});
