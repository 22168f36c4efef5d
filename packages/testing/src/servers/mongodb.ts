import { connect } from 'node:net';
import { eventually } from '../eventually.ts';
import { freePort } from '../free-port.ts';
import { tempDir } from '../temp-dir.ts';
import { durableServer, javaServer } from './mongodb-programs.ts';
import { type ProcessGroup, startGroup } from './process-group.ts';
import type { TestServer } from './server.ts';

export interface MongoOptions {
  /** What it acknowledged outlives `kill`. Otherwise it is empty after `kill` and `start`. */
  durable: boolean;
}

/**
 * A server of one's own that speaks MongoDB's protocol: mongo-java-server, or nx-27017 where it has to keep its data.
 * @throws Error with its output when it does not start
 */
export async function startMongo({ durable }: MongoOptions): Promise<TestServer> {
  const command = await (durable ? durableServer() : javaServer());
  const directory = await tempDir();
  const port = await freePort();
  let group: ProcessGroup | undefined;

  const server: TestServer = {
    name: 'MongoDB',
    url: `mongodb://127.0.0.1:${port}`,
    async start() {
      if (group?.isRunning) return;
      const started = startGroup(command(port, directory.path), { directory: directory.path });
      group = started;
      try {
        await eventually(async () => !started.isRunning || (await listens(port)), { ms: 30_000 });
        if (!started.isRunning) throw new Error('it has ended');
      } catch (error) {
        await started.kill();
        throw new Error(`MongoDB does not start: ${String(error)}\n${await started.output()}`);
      }
    },
    async kill() {
      await group?.kill();
    },
    async dispose() {
      await group?.kill();
      await directory.remove();
    },
  };
  try {
    await server.start();
  } catch (error) {
    await server.dispose();
    throw error;
  }
  return server;
}

/** Both programs answer as soon as they take connections. */
function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true));
    socket.once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
