import { randomBytes } from 'node:crypto';
import { existsSync, utimesSync } from 'node:fs';
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Bundle } from '@wellspring/contract/definition';
import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import { createLru } from '@wellspring/core/lru';
import type { Files } from '../process-directories.ts';
import type { Packages } from './packager.ts';

/**
 * Writes a bundle to disk, with its packages, unless it is there.
 * @param read not called for files that are known to be there
 * @param ownerId owner whose share of installations it uses
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

export function createBundleFiles(directory: string, packages: Packages, now: () => number): BundleFiles {
  const entries = createLru<Entry>(MAX_ENTRIES);
  const reads = createFairPermits({ total: READS });
  /** By bundle and owner. */
  const writing = new Map<string, Promise<Files>>();

  /** @returns what else is needed of the bundle */
  async function writeCode(bundleId: string, read: () => Promise<Bundle>) {
    const { code, format, ...locked } = await read();
    const extension = format === 'esm' ? 'mjs' : 'cjs';
    const path = join(directory, `${bundleId}.${extension}`);
    if (!existsSync(path)) {
      await mkdir(directory, { recursive: true, mode: 0o700 });
      const temporary = `${path}.${randomBytes(6).toString('hex')}.part`;
      await writeFile(temporary, code);
      // Process directories link to the file, and another user reads it; the umask would restrict a mode given to `writeFile`.
      await chmod(temporary, 0o644);
      await rename(temporary, path);
    }
    return { file: { path, name: `component.${extension}`, format }, locked };
  }

  async function write(bundleId: string, read: () => Promise<Bundle>, ownerId: string): Promise<Files> {
    const { file, locked } = await withPermit(reads, ownerId, () => writeCode(bundleId, read));
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
    const known = entries.get(bundleId);
    if (known && isPresent(known)) return known.files;
    entries.delete(bundleId);
    // Until its packages are installed, each owner waits in its own queue of installations.
    const key = `${bundleId} ${ownerId}`;
    let files = writing.get(key);
    if (!files) {
      files = write(bundleId, read, ownerId).finally(() => writing.delete(key));
      writing.set(key, files);
    }
    const written = await files;
    if (!entries.has(bundleId)) entries.set(bundleId, { files: written, markedAt: now() });
    return written;
  };
}
