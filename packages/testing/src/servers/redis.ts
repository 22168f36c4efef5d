import { connect } from 'node:net';
import { eventually } from '../eventually.ts';
import { freePort } from '../free-port.ts';
import { tempDir } from '../temp-dir.ts';
import { type ProcessGroup, startGroup } from './process-group.ts';
import type { TestServer } from './server.ts';

/** A Redis of one's own. It keeps nothing: after `kill` and `start` it is empty. @throws Error with its output when it does not start */
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
  let group: ProcessGroup | undefined;

  const server: TestServer = {
    name: 'Redis',
    url: `redis://127.0.0.1:${port}`,
    async start() {
      if (group?.isRunning) return;
      const started = startGroup(command, { directory: directory.path });
      group = started;
      try {
        await eventually(async () => !started.isRunning || (await answers(port)), { ms: 20_000 });
        if (!started.isRunning) throw new Error('it has ended');
      } catch (error) {
        await started.kill();
        throw new Error(`Redis does not start: ${String(error)}\n${await started.output()}`);
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

/** Whether the server on the port says PONG. */
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
