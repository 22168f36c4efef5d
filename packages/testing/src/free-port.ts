import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * A port that is free now. Below the range that the system gives to outgoing connections: there, a client could take
 * the port while the platform is down between two starts.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 32_000);
    const isFree = await new Promise<boolean>((resolve) => {
      const server = createServer().once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}
