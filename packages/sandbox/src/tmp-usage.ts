import { lstat, opendir, statfs } from 'node:fs/promises';
import { join } from 'node:path';

/** What lies in the temporary directory of a process. */
export interface TmpUsage {
  /** Files and directories. */
  inodes: number;
  bytes: number;
}

/** Where the temporary directory is a file system of its own, the kernel counts. @throws when the process has ended */
export async function usageOfFileSystem(path: string): Promise<TmpUsage> {
  const { files, ffree, blocks, bfree, bsize } = await statfs(path);
  return { inodes: files - ffree, bytes: (blocks - bfree) * bsize };
}

/**
 * Counts a directory, and stops as soon as more than so many files or bytes were seen. Links are not followed.
 * @throws never: what disappears while it is being counted counts nothing
 */
export async function usageOfDirectory(root: string, max: TmpUsage): Promise<TmpUsage> {
  const usage: TmpUsage = { inodes: 0, bytes: 0 };
  const directories = [root];
  const isOver = () => usage.inodes > max.inodes || usage.bytes > max.bytes;
  for (let path = directories.pop(); path !== undefined && !isOver(); path = directories.pop()) {
    try {
      for await (const entry of await opendir(path)) {
        usage.inodes += 1;
        const child = join(path, entry.name);
        if (entry.isDirectory()) directories.push(child);
        else if (entry.isFile()) {
          const { blocks } = await lstat(child);
          usage.bytes += blocks * 512;
        }
        if (isOver()) break;
      }
    } catch {
      // Removed meanwhile.
    }
  }
  return usage;
}
