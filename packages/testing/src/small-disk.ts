import { execFile } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { tempDir } from './temp-dir.ts';

const run = promisify(execFile);

/** A file system in memory with a fixed size. */
export interface SmallDisk extends AsyncDisposable {
  path: string;
  /** Takes all space that is left. */
  fill(): Promise<void>;
  /** Undoes `fill`. */
  free(): Promise<void>;
  remove(): Promise<void>;
}

const CHUNK = Buffer.alloc(64 * 1024);

/** Undefined if this user may not mount; the reason is logged. */
export async function smallDisk(megabytes: number): Promise<SmallDisk | undefined> {
  const dir = await tempDir();
  try {
    await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=0755`, 'tmpfs', dir.path]);
  } catch (error) {
    await dir.remove();
    console.warn(`Skipped: a full disk needs the right to mount. ${(error as Error).message}`);
    return undefined;
  }
  const ballast = join(dir.path, 'ballast');
  const remove = async () => {
    await run('umount', ['-l', dir.path]);
    await dir.remove();
  };
  return {
    path: dir.path,
    async fill() {
      for (;;) {
        try {
          await writeFile(ballast, CHUNK, { flag: 'a' });
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
          return;
        }
      }
    },
    free: () => rm(ballast, { force: true }),
    remove,
    [Symbol.asyncDispose]: remove,
  };
}
