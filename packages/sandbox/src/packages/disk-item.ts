import { randomBytes } from 'node:crypto';
import { rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { diskUsage, list } from './disk-usage.ts';

/** A bundle, a set of packages or a tarball. */
export interface DiskItem {
  path: string;
  usedAt: number;
  bytes: number;
}

/**
 * The items of a directory.
 * @param seen see `diskUsage`
 */
export async function itemsOf(directory: string, seen = new Set<string>()): Promise<DiskItem[]> {
  const items: DiskItem[] = [];
  for (const { name } of await list(directory)) {
    const path = join(directory, name);
    const found = await stat(path).catch(() => undefined);
    if (found) items.push({ path, usedAt: found.mtimeMs, bytes: await diskUsage(path, seen) });
  }
  return items;
}

/** Least recently used first. */
export const byUse = (a: DiskItem, b: DiskItem): number => a.usedAt - b.usedAt;

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
