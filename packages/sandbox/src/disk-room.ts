import { statfsSync } from 'node:fs';
import { invalidComponent, type Problem } from '@wellspring/core/problem';

/**
 * Space for files of one owner, who may hold at most as many bytes as stay free: one owner gets at most half of the disk,
 * and leaves room for others.
 */
export interface DiskRoom {
  /** Counts bytes that are about to be written. @throws Problem 400 if the owner may not hold more */
  take(bytes: number): void;
  /** Bytes that were counted. */
  readonly taken: number;
  /** The error of `take`. */
  readonly exceeded: Problem | undefined;
}

const MB = 1024 * 1024;
const BLOCK_BYTES = 4096;
/** Kept free for the platform: a twentieth, at most these bytes. */
const RESERVED_PART = 20;
const MAX_RESERVE_BYTES = 1024 * MB;
/** After so many bytes, free space is measured again, since others write, too. */
const MEASURE_BYTES = 8 * MB;

/** Bytes that a file or directory takes on disk. */
export const onDisk = (bytes: number): number => Math.max(1, Math.ceil(bytes / BLOCK_BYTES)) * BLOCK_BYTES;

/**
 * Bytes that packages may still take on the file system of this path: each file that is left takes a block at least.
 * @param withReserve also counts the space that is kept free for the platform
 */
export function freeBytes(path: string, withReserve = false): number {
  const { bavail, blocks, bsize, files, ffree } = statfsSync(path);
  const part = withReserve ? 0 : 1 / RESERVED_PART;
  const bytes = bavail * bsize - Math.min(MAX_RESERVE_BYTES, blocks * bsize * part);
  // Some file systems have no fixed number of files.
  return files === 0 ? bytes : Math.min(bytes, (ffree - files * part) * BLOCK_BYTES);
}

/**
 * @param held returns the bytes that the owner holds besides those taken here
 * @param measure gets the bytes taken here, returns the free ones
 */
export function createDiskRoom(held: () => number, measure: (taken: number) => number): DiskRoom {
  let taken = 0;
  let free = measure(taken);
  let sinceMeasured = 0;
  let exceeded: Problem | undefined;
  return {
    take(bytes) {
      if (sinceMeasured > MEASURE_BYTES) {
        free = measure(taken);
        sinceMeasured = 0;
      }
      taken += bytes;
      sinceMeasured += bytes;
      if (held() + taken <= free - sinceMeasured) return;
      exceeded = invalidComponent(
        `There is no room for these packages: those of their owner take ${Math.round(held() / MB)} MB of the disk, and may take at most as much as stays free.`,
      );
      throw exceeded;
    },
    get taken() {
      return taken;
    },
    get exceeded() {
      return exceeded;
    },
  };
}
