import { connect } from 'node:net';
import { freePort } from '../free-port.ts';
import { tempDir } from '../temp-dir.ts';
import type { TestServer } from './server.ts';
import { startServer } from './start-server.ts';

/** Starts a separate Redis without persistence: after `kill` and `start` it is empty. @throws Error with its output when it does not start */
export async function startRedis(): Promise<TestServer> {
  const directory = await tempDir();
  const port = await freePort();
  const command = [
    'redis-server',
    '--port',
    `${port}`,
    '--bind',
    '127.0.0.1',
    '--save',
    '',
    '--appendonly',
    'no',
  ];
  return startServer({
    name: 'Redis',
    url: `redis://127.0.0.1:${port}`,
    command,
    directory,
    answers: () => answers(port),
    checks: { ms: 20_000 },
  });
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    socket.setTimeout(1_000, () => socket.destroy());
    socket.once('data', (data) => {
      resolve(data.toString().startsWith('+PONG'));
      socket.destroy();
    });
    socket.once('error', () => {});
    socket.once('close', () => resolve(false));
  });
}
