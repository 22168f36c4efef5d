import { eventually } from '../eventually.ts';
import { freePort } from '../free-port.ts';
import { tempDir } from '../temp-dir.ts';
import { pythonWith } from './cached.ts';
import { type ProcessGroup, startGroup } from './process-group.ts';
import type { TestServer } from './server.ts';

const MOTO = ['moto[s3,server]==5.2.5'];

/**
 * A server of one's own that speaks the protocol of S3: that of moto, installed by pip on first use. It keeps nothing,
 * and buckets are there when they are first named. @throws Error with its output when it does not start
 */
export async function startS3(): Promise<TestServer> {
  const python = await pythonWith('moto', MOTO);
  const directory = await tempDir();
  const port = await freePort();
  const address = `http://127.0.0.1:${port}`;
  const command = [python, '-m', 'moto.server', '-H', '127.0.0.1', '-p', `${port}`];
  let group: ProcessGroup | undefined;

  const server: TestServer = {
    name: 'S3',
    url: `http://test:test@127.0.0.1:${port}/test`,
    async start() {
      if (group?.isRunning) return;
      const started = startGroup(command, { directory: directory.path });
      group = started;
      try {
        const answers = () => fetch(`${address}/moto-api/`).then(({ ok }) => ok);
        await eventually(async () => !started.isRunning || answers(), { ms: 60_000, every: 100 });
        if (!started.isRunning) throw new Error('it has ended');
      } catch (error) {
        await started.kill();
        throw new Error(`S3 does not start: ${String(error)}\n${await started.output()}`);
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
