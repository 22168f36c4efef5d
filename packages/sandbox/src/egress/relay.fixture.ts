import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { tempDir } from '@wellspring/testing/temp-dir';
import type { EgressLimits } from './limits.ts';
import type { Names } from './names.ts';
import type { PlatformAddresses } from './policy.ts';
import { createRelay, type Relay, type Report } from './relay.ts';
import { type Answer, createLineReader, encodePreamble, OPERATION, type Question } from './wire.ts';

/** A relay in this process, and the sandbox's side of its protocol. */

export const NO_PLATFORM: PlatformAddresses = { names: [], listenerPorts: [], endpoints: [] };

interface Connection {
  id: number;
  socket: Socket;
  text: Promise<string>;
}

export interface Client {
  /** Opens a connection; see `answerTo` for its outcome. */
  connect(host: string, port: number): Connection;
  ask(question: { lookup: string } | { resolve: string; type: string }): Promise<Answer>;
  answerTo(id: number): Promise<Answer>;
  /** Opens a connection and waits for its outcome. */
  dial(host: string, port: number): Promise<Connection & { answer: Answer }>;
  send(question: Question): void;
  channel: Socket;
}

export interface TestRelay extends AsyncDisposable {
  relay: Relay;
  reports: Report[];
  path(sandbox: string): string;
  /** Opens a sandbox, assigned to this owner except for `unassigned`, and the channel of one thread. */
  client(sandbox: string, owner?: string | null | 'unassigned'): Promise<Client>;
}

export async function openRelay(
  options: {
    allowNetworks?: string[];
    platform?: PlatformAddresses;
    limits?: Partial<EgressLimits>;
    names?: Names;
    /** Starts the relay; default: in this process. */
    start?: typeof createRelay;
  } = {},
): Promise<TestRelay> {
  const directory = await tempDir();
  const reports: Report[] = [];
  const relay = (options.start ?? createRelay)(
    {
      allowNetworks: options.allowNetworks ?? ['127.0.0.0/8', '::1/128'],
      platform: options.platform ?? NO_PLATFORM,
      ...(options.limits ? { limits: options.limits } : {}),
    },
    (report) => void reports.push(report),
    options.names,
  );
  const path = (sandbox: string) => join(directory.path, sandbox);
  const sockets: Socket[] = [];

  async function dial(sandbox: string): Promise<Socket> {
    const socket = connect({ path: path(sandbox), allowHalfOpen: true });
    sockets.push(socket);
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    socket.on('error', () => {});
    return socket;
  }

  return {
    relay,
    reports,
    path,
    async client(sandbox, owner = null) {
      relay.order({ type: 'open', sandbox, path: path(sandbox) });
      if (owner !== 'unassigned') relay.order({ type: 'assign', sandbox, owner });
      // One in another process listens a moment later.
      const channel = await eventually(() => dial(sandbox));
      channel.write(encodePreamble({ operation: OPERATION.control, channel: 7, id: 0, port: 0, host: '' }));
      const answers = new Map<number, Answer[]>();
      const waiting = new Map<number, (answer: Answer) => void>();
      channel.on(
        'data',
        createLineReader(1e6, (line) => {
          const answer = JSON.parse(line) as Answer;
          const hear = waiting.get(answer.id);
          waiting.delete(answer.id);
          if (hear) hear(answer);
          else answers.set(answer.id, [...(answers.get(answer.id) ?? []), answer]);
        }),
      );
      const answerTo = (id: number) =>
        new Promise<Answer>((resolve) => {
          const [first, ...rest] = answers.get(id) ?? [];
          answers.set(id, rest);
          if (first) resolve(first);
          else waiting.set(id, resolve);
        });
      const send = (question: Question) => void channel.write(`${JSON.stringify(question)}\n`);
      let last = 0;
      const client: Client = {
        channel,
        send,
        answerTo,
        async dial(host, port) {
          const connection = client.connect(host, port);
          return { ...connection, answer: await answerTo(connection.id) };
        },
        connect(host, port) {
          last += 1;
          const socket = connect({ path: path(sandbox), allowHalfOpen: true });
          sockets.push(socket);
          socket.on('error', () => {});
          socket.write(encodePreamble({ operation: OPERATION.connect, channel: 7, id: last, port, host }));
          const text = (async () => {
            let all = '';
            for await (const chunk of socket.iterator({ destroyOnReturn: false })) all += String(chunk);
            return all;
          })().catch((error: NodeJS.ErrnoException) => `failed: ${error.code}`);
          return { id: last, socket, text };
        },
        ask(question) {
          last += 1;
          send({ id: last, ...question });
          return answerTo(last);
        },
      };
      return client;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      relay.close();
      await directory.remove();
    },
  };
}

export interface TestServer extends AsyncDisposable {
  port: number;
  connections: Socket[];
  server: Server;
}

/** A TCP server on loopback. */
export async function serve(
  handle: (socket: Socket) => void,
  host = '127.0.0.1',
  port = 0,
): Promise<TestServer> {
  const connections: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    connections.push(socket);
    socket.on('error', () => {});
    handle(socket);
  });
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, host, resolve));
  const address = server.address();
  return {
    server,
    connections,
    port: typeof address === 'object' && address ? address.port : 0,
    async [Symbol.asyncDispose]() {
      for (const socket of connections) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export const echo = (socket: Socket): void => void socket.pipe(socket);

/** A port on loopback that does not answer: its process is stopped, and its queue full. */
export async function openSilentPort(): Promise<{ port: number } & AsyncDisposable> {
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
  listener.kill('SIGSTOP');
  const queue = Array.from({ length: 4 }, () => connect(port, '127.0.0.1').on('error', () => {}));
  await once(queue[0]!, 'connect');
  return {
    port,
    async [Symbol.asyncDispose]() {
      for (const socket of queue) socket.destroy();
      listener.kill('SIGKILL');
      await once(listener, 'close');
    },
  };
}

/** Tries to connect. @returns `connected`, or code and message of the error */
export async function attempt(client: Client, port: number): Promise<string> {
  const { answer } = await client.dial('127.0.0.1', port);
  return 'failed' in answer ? `${answer.failed.code}: ${answer.failed.message}` : 'connected';
}

/** Checks that the relay serves this sandbox. */
export async function isServed(client: Client, port: number): Promise<void> {
  const { socket, text, answer } = await client.dial('127.0.0.1', port);
  expect(answer).toHaveProperty('connected');
  socket.end('served');
  expect(await text).toBe('served');
}

/** Positive control: a connection from outside of the sandboxes is seen by the server. */
export async function isReached(server: TestServer): Promise<void> {
  const direct = connect(server.port, '127.0.0.1');
  await eventually(() => server.connections.length === 1);
  direct.destroy();
}
