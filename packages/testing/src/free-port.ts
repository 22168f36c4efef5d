import { randomInt } from 'node:crypto';
import { mkdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A file for each port that was given away, with the id of the process that has it. */
const TAKEN = join(tmpdir(), 'wellspring-test-ports');

/**
 * A port that is free now, and that no other test gets while this process lives. Below the range that the system gives
 * to outgoing connections: there, a client could take the port while the platform is down between two starts.
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

/** Whether the port is this process's now: nobody had it, or whoever had it has ended. */
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
      // Another process was quicker; the next port will do.
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
