import { freePort } from '../free-port.ts';
import { tempDir } from '../temp-dir.ts';
import { pythonWith } from './cached.ts';
import type { TestServer } from './server.ts';
import { startServer } from './start-server.ts';

const MOTO = ['moto[s3,server]==5.2.5'];

/**
 * Starts a separate S3 server: moto, installed by pip on first use. It has no persistence and creates buckets on first
 * use. @throws Error with its output when it does not start
 */
export async function startS3(): Promise<TestServer> {
  const python = await pythonWith('moto', MOTO);
  const directory = await tempDir();
  const port = await freePort();
  const command = [python, '-m', 'moto.server', '-H', '127.0.0.1', '-p', `${port}`];
  return startServer({
    name: 'S3',
    url: `http://test:test@127.0.0.1:${port}/test`,
    command,
    directory,
    answers: () => fetch(`http://127.0.0.1:${port}/moto-api/`).then(({ ok }) => ok),
    checks: { ms: 60_000, every: 100 },
  });
}
