import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { chmod, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { piecesOf } from '@wellspring/core/in-pieces';
import { createLru } from '@wellspring/core/lru';
import { freeBytes, onDisk } from '../disk-room.ts';
import { byUse, itemsOf, removeUnused } from './disk-item.ts';

/**
 * The code of bundles on disk, which can be written again at any time: the least recently used files of an owner are
 * removed while it holds more than a quarter of the bytes that are free.
 */
export interface BundleDisk {
  /**
   * Writes a file unless it is there. An owner writes one at a time.
   * @returns its path
   */
  write(ownerId: string, name: string, code: string): Promise<string>;
}

const SHARE = 1 / 4;
/** Encoding megabytes at once would hold up other work. */
const PIECE_CHARS = 256 * 1024;
/** Not removed: a process that starts may not have linked it yet. */
const PROTECTED_MS = 15_000;
const MAX_OWNERS = 1000;

/**
 * @param directory has a directory for each owner
 * @param free bytes that bundles may still take; replaced in tests
 */
export function createBundleDisk(
  directory: string,
  now: () => number,
  free: () => number = () => freeBytes(directory),
): BundleDisk {
  /** Bytes by owner. */
  const held = createLru<number>(MAX_OWNERS);

  /** Counts bytes that are about to be written, and removes files until the owner does not hold too many. */
  async function count(ownerId: string, own: string, bytes: number): Promise<void> {
    const known = held.get(ownerId);
    const most = free() * SHARE;
    if (known !== undefined && known + bytes <= most) {
      held.set(ownerId, known + bytes);
      return;
    }
    // `.part`: another process of the platform writes or removes it.
    const items = (await itemsOf(own)).filter(({ path }) => !path.endsWith('.part')).sort(byUse);
    let total = items.reduce((sum, item) => sum + item.bytes, bytes);
    // Half of it, so that files are not listed for each one that is written.
    const target = total <= most ? most : most / 2;
    for (const item of items) {
      if (total <= target || now() - item.usedAt < PROTECTED_MS) break;
      if (await removeUnused(item)) total -= item.bytes;
    }
    held.set(ownerId, total);
  }

  return {
    async write(ownerId, name, code) {
      // Code of the platform has no owner.
      const own = join(directory, ownerId || 'platform');
      const path = join(own, name);
      const bytes = Buffer.byteLength(code);
      // After a power loss, its name may have no content.
      if (statSync(path, { throwIfNoEntry: false })?.size === bytes) return path;
      await mkdir(own, { recursive: true, mode: 0o700 });
      await count(ownerId, own, onDisk(bytes));
      const temporary = `${path}.${randomBytes(6).toString('hex')}.part`;
      try {
        await writeFile(temporary, piecesOf(code, PIECE_CHARS), { flush: true });
        // Process directories link to the file, and another user reads it; the umask would restrict a mode given to `writeFile`.
        await chmod(temporary, 0o644);
        await rename(temporary, path);
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
      return path;
    },
  };
}
