import { existsSync, utimesSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Bundle } from '@wellspring/contract/definition';
import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import { createLru } from '@wellspring/core/lru';
import type { Files } from '../process-directories.ts';
import type { BundleDisk } from './bundle-disk.ts';
import type { Packages } from './packager.ts';

/**
 * Writes a bundle to disk, with its packages, unless it is there.
 * @param read not called for files that are known to be there
 * @param ownerId owner whose share of the disk and of installations it uses
 */
export type BundleFiles = (bundleId: string, read: () => Promise<Bundle>, ownerId: string) => Promise<Files>;

interface Entry {
  files: Files;
  /** Epoch milliseconds at which the files were last marked as used. */
  markedAt: number;
}

const MAX_ENTRIES = 1000;
/** Bundles in memory at a time, of which an owner has half: each may take 100 MB while it is read. */
const READS = 2;
/** Minimum interval of marking files as used; much shorter than `protectedMs` of the collection. */
export const MARK_INTERVAL_MS = 10 * 60_000;

export function createBundleFiles(disk: BundleDisk, packages: Packages, now: () => number): BundleFiles {
  // By bundle and owner: an owner does not remove files of others.
  const entries = createLru<Entry>(MAX_ENTRIES);
  const reads = createFairPermits({ total: READS });
  const writing = new Map<string, Promise<Files>>();

  /** @returns what else is needed of the bundle */
  async function writeCode(bundleId: string, read: () => Promise<Bundle>, ownerId: string) {
    const { code, format, ...locked } = await read();
    const extension = format === 'esm' ? 'mjs' : 'cjs';
    const path = await disk.write(ownerId, `${bundleId}.${extension}`, code);
    return { file: { path, name: `component.${extension}`, format }, locked };
  }

  async function write(bundleId: string, read: () => Promise<Bundle>, ownerId: string): Promise<Files> {
    const { file, locked } = await withPermit(reads, ownerId, () => writeCode(bundleId, read, ownerId));
    const files = { ...file, nodeModules: await packages.provide(locked, ownerId) };
    mark(files);
    return files;
  }

  /** @throws Error if the files were removed */
  function mark({ path, nodeModules }: Files): void {
    const seconds = now() / 1000;
    utimesSync(path, seconds, seconds);
    if (nodeModules !== undefined) utimesSync(dirname(nodeModules), seconds, seconds);
  }

  /** False: the files have to be rewritten. */
  function isPresent(entry: Entry): boolean {
    const { path, nodeModules = path } = entry.files;
    if (now() - entry.markedAt < MARK_INTERVAL_MS) return existsSync(path) && existsSync(nodeModules);
    try {
      mark(entry.files);
      entry.markedAt = now();
      return true;
    } catch {
      return false;
    }
  }

  return async (bundleId, read, ownerId) => {
    const key = `${bundleId} ${ownerId}`;
    const known = entries.get(key);
    if (known && isPresent(known)) return known.files;
    entries.delete(key);
    let files = writing.get(key);
    if (!files) {
      files = write(bundleId, read, ownerId).finally(() => writing.delete(key));
      writing.set(key, files);
    }
    const written = await files;
    if (!entries.has(key)) entries.set(key, { files: written, markedAt: now() });
    return written;
  };
}
