import { join } from 'node:path';
import { byUse, type DiskItem, itemsOf, removeUnused } from './disk-item.ts';
import { list } from './disk-usage.ts';

/** Removes bundles, sets of packages and tarballs that were not used for a long time. All can be recreated. */
export interface CollectOptions {
  /** Directory of the bundles, by owner. */
  bundles: string;
  /** Parent of `sets/` and `tarballs/`. */
  packages: string;
  now: number;
  limits?: CollectLimits;
}

export interface CollectLimits {
  /** Items that were not used for this time are removed. */
  unusedMs: number;
  /** Items that were used within this time are kept regardless of their size. */
  protectedMs: number;
  /** Beyond this size of a directory, its least recently used items are removed. */
  maxBytes: number;
}

const DAY_MS = 24 * 60 * 60_000;
const COLLECT_LIMITS: CollectLimits = {
  unusedMs: 30 * DAY_MS,
  protectedMs: DAY_MS / 4,
  maxBytes: 4 * 1024 ** 3,
};

/** Of all owners. */
async function bundlesOf(directory: string): Promise<DiskItem[]> {
  const items: DiskItem[] = [];
  for (const { name } of await list(directory)) items.push(...(await itemsOf(join(directory, name))));
  return items;
}

/** @returns the number of bundles, sets and tarballs that were removed */
export async function collect({ bundles, packages, now, limits }: CollectOptions): Promise<number> {
  const { unusedMs, protectedMs, maxBytes } = limits ?? COLLECT_LIMITS;
  let removed = 0;
  const [sets, tarballs] = [join(packages, 'sets'), join(packages, 'tarballs')];
  for (const items of [await bundlesOf(bundles), await itemsOf(sets), await itemsOf(tarballs)]) {
    items.sort(byUse);
    let total = items.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const item of items) {
      const { path, usedAt, bytes } = item;
      const age = now - usedAt;
      // `.part`: left by an interrupted installation; none takes as long as the protected time.
      const isRemovable = age > protectedMs && (age > unusedMs || total > maxBytes || path.endsWith('.part'));
      if (!isRemovable || !(await removeUnused(item))) continue;
      total -= bytes;
      removed += 1;
    }
  }
  return removed;
}
