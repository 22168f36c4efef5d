import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { ADMIN_KEY } from './platform.ts';

const MOVE = fileURLToPath(new URL('../../tools/src/move-main.ts', import.meta.url));

export interface MoveTarget {
  /** Of RabbitMQ, Redis and MongoDB. */
  urls: { amqp: string; redis: string; mongodb: string };
  /** The root key, or several. */
  secretKey: string;
}

/** Moves a data directory with `pnpm move`; returns its exit code and output. */
export function runMove(
  dataDir: string,
  { urls, secretKey }: MoveTarget,
): Promise<{ code: number; output: string }> {
  const env = {
    PATH: process.env.PATH,
    WELLSPRING_DATA_DIR: dataDir,
    WELLSPRING_AMQP_URL: urls.amqp,
    WELLSPRING_REDIS_URL: urls.redis,
    WELLSPRING_MONGODB_URL: urls.mongodb,
    WELLSPRING_SECRET_KEY: secretKey,
    WELLSPRING_ADMIN_KEY: ADMIN_KEY,
  };
  return new Promise((resolve) => {
    execFile(process.execPath, [MOVE], { env }, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code) : 0, output: stdout + stderr }),
    );
  });
}
