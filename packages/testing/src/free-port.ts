import { randomInt } from 'node:crypto';
import { mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** One file per assigned port, with the id of its process. */
const TAKEN = join(tmpdir(), 'wellspring-test-ports');

/**
 * A free port that no other test gets while this process lives. It lies below the range of outgoing connections, which
 * could take it between two starts of the platform.
 */
export async function freePort(): Promise<number> {
  mkdirSync(TAKEN, { recursive: true, mode: 0o777 });
  for (;;) {
    const port = randomInt(15_000, 32_000);
    if (!take(port)) continue;
    const isFree = await new Promise<boolean>((resolve) => {
      const server = createServer().once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}

/** Assigns the port to this process unless it belongs to a live one. */
function take(port: number): boolean {
  const path = join(TAKEN, String(port));
  try {
    writeFileSync(path, String(process.pid), { flag: 'wx' });
    return true;
  } catch {
    if (isAlive(path)) return false;
    try {
      unlinkSync(path);
    } catch {
      // Another process removed the file first.
    }
    return false;
  }
}

function isAlive(path: string): boolean {
  try {
    process.kill(Number(readFileSync(path, 'utf8')), 0);
    return true;
  } catch (error) {
    return (error as { code?: string }).code === 'EPERM';
  }
}
