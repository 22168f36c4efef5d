import { lstat, opendir, statfs } from 'node:fs/promises';
import { join } from 'node:path';

/** Usage of a temporary directory. */
export interface TmpUsage {
  /** Files and directories. */
  inodes: number;
  bytes: number;
}

/** Usage of a temporary directory that is a file system. @throws if the process has ended */
export async function usageOfFileSystem(path: string): Promise<TmpUsage> {
  const { files, ffree, blocks, bfree, bsize } = await statfs(path);
  return { inodes: files - ffree, bytes: (blocks - bfree) * bsize };
}

/**
 * Measures a directory; stops as soon as it exceeds `max`. Does not follow links. Ignores files that disappear.
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
      // The file or directory was removed.
    }
  }
  return usage;
}
