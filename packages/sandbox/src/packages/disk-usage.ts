import type { Dirent } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** Of `stat`, regardless of the block size of the file system. */
const STAT_BLOCK_BYTES = 512;

/** Entries of a directory; none if it does not exist. */
export async function list(directory: string): Promise<Dirent[]> {
  return readdir(directory, { withFileTypes: true }).catch(() => []);
}

/**
 * Blocks that a file or tree takes on disk. Reads one file after the other, since it is not urgent.
 * @param seen files with several hard links, each of which is counted once
 */
export async function diskUsage(path: string, seen = new Set<string>()): Promise<number> {
  const found = await lstat(path).catch(() => undefined);
  if (!found) return 0;
  if (found.nlink > 1 && !found.isDirectory()) {
    const id = `${found.dev} ${found.ino}`;
    if (seen.has(id)) return 0;
    seen.add(id);
  }
  let bytes = found.blocks * STAT_BLOCK_BYTES;
  if (found.isDirectory())
    for (const entry of await list(path)) bytes += await diskUsage(join(path, entry.name), seen);
  return bytes;
}
