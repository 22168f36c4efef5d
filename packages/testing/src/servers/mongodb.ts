import { connect } from 'node:net';
import { freePort } from '../free-port.ts';
import { tempDir } from '../temp-dir.ts';
import { durableServer, javaServer } from './mongodb-programs.ts';
import type { TestServer } from './server.ts';
import { startServer } from './start-server.ts';

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
  return startServer({
    name: 'MongoDB',
    url: `mongodb://127.0.0.1:${port}`,
    // nx-27017 needs a name of its own for each start.
    command: () => command(port, directory.path),
    directory,
    answers: () => listens(port),
    patience: { ms: 30_000 },
  });
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
