import type { Dirent } from 'node:fs';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** Limits of a directory tree. */
export interface UsageLimits {
  bytes: number;
  /** Files and directories. */
  inodes: number;
}

const INTERVAL_MS = 250;
const AT_A_TIME = 64;

/** @returns undefined if it cannot be read */
async function list(directory: string): Promise<Dirent[] | undefined> {
  try {
    return await readdir(directory, { withFileTypes: true });
  } catch (error) {
    // The directory was removed.
    if ((error as { code?: string }).code === 'ENOENT') return [];
    return undefined;
  }
}

/**
 * Whether a directory exceeds the limits. The size of a file is divided by its number of links. A tree that cannot be
 * read counts as too large.
 */
export async function holdsMoreThan(directory: string, limits: UsageLimits): Promise<boolean> {
  let [bytes, inodes] = [0, 0];
  const directories = [directory];
  for (let next = directories.pop(); next !== undefined; next = directories.pop()) {
    const at = next;
    const entries = await list(at);
    if (entries === undefined) return true;
    inodes += entries.length;
    if (inodes > limits.inodes) return true;
    for (let start = 0; start < entries.length; start += AT_A_TIME) {
      await Promise.all(
        entries.slice(start, start + AT_A_TIME).map(async (entry) => {
          const path = join(at, entry.name);
          if (entry.isDirectory()) directories.push(path);
          const info = await lstat(path).catch(() => undefined);
          if (info) bytes += (info.blocks * 512) / (entry.isDirectory() ? 1 : info.nlink);
        }),
      );
      if (bytes > limits.bytes) return true;
    }
  }
  return false;
}

/** Checks a directory at intervals. @returns true when it exceeds the limits, false when stopped */
export async function watchUsage(
  directory: string,
  limits: UsageLimits,
  stop: AbortSignal,
): Promise<boolean> {
  while (!stop.aborted) {
    if (await holdsMoreThan(directory, limits)) return true;
    await delay(INTERVAL_MS, undefined, { signal: stop, ref: false }).catch(() => {});
  }
  return false;
}
