import { randomBytes } from 'node:crypto';
import { rename, rm, stat } from 'node:fs/promises';

/** A bundle, a set of packages or a tarball. */
export interface DiskItem {
  path: string;
  usedAt: number;
  bytes: number;
}

/**
 * Removes an item, unless it was used after `usedAt` was read. It is renamed first, so that nobody finds a part of it.
 * @returns whether it was removed
 */
export async function removeUnused({ path, usedAt }: DiskItem): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  if (found?.mtimeMs !== usedAt) return false;
  // An interrupted removal leaves this for the collection.
  const renamed = `${path}.${randomBytes(6).toString('hex')}.part`;
  try {
    await rename(path, renamed);
  } catch (error) {
    // Another process of the platform has removed it.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
  await rm(renamed, { recursive: true, force: true });
  return true;
}
