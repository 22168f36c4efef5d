import { chmodSync, closeSync, fchmodSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { invalidComponent } from '@wellspring/core/problem';
import { type DiskRoom, onDisk } from '../disk-room.ts';
import { JAIL_LIMITS } from './jail/jail.ts';
import type { InstallFrame } from './jailed/install.ts';
import type { FrameSink } from './read-frames.ts';

/** Files and directories. */
const MAX_ENTRIES = 100_000;
const MAX_PATH_BYTES = 1024;
const MAX_DEPTH = 64;

const isSafePath = (path: unknown): path is string =>
  typeof path === 'string' &&
  Buffer.byteLength(path) <= MAX_PATH_BYTES &&
  path.split('/').length <= MAX_DEPTH &&
  path.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !part.includes('\0'));

/**
 * Writes files from the jail to an empty directory that nothing else writes to. Creates only regular files and
 * directories, and overwrites nothing, so no link can redirect a write. Synchronous: it runs in a packager process.
 */
export function receiveTree(
  directory: string,
  room: DiskRoom,
  maxEntries = MAX_ENTRIES,
): FrameSink & { close(): void } {
  const made = new Set<string>();
  let entries = 0;
  let bytes = 0;
  let file: number | undefined;

  /** Counts a file or directory with the blocks that it takes. */
  function countEntry(size: number): void {
    entries += 1;
    if (entries > maxEntries)
      throw invalidComponent(`The packages have more than ${maxEntries} files and directories.`);
    bytes += onDisk(size);
    if (bytes > JAIL_LIMITS.diskBytes) throw tooLarge();
    room.take(onDisk(size));
  }

  /** Readable for every user, regardless of the umask. */
  function makeDirectory(path: string): void {
    if (made.has(path) || path === directory) return;
    makeDirectory(dirname(path));
    countEntry(0);
    mkdirSync(path);
    chmodSync(path, 0o755);
    made.add(path);
  }

  function close(): void {
    if (file !== undefined) closeSync(file);
    file = undefined;
  }

  return {
    close,
    header(frame: InstallFrame) {
      close();
      if (frame.type !== 'file') return;
      if (!isSafePath(frame.path)) throw new Error('The installation contains a path that is not allowed');
      const path = join(directory, frame.path);
      makeDirectory(dirname(path));
      countEntry(frame.size);
      file = openSync(path, 'wx');
      fchmodSync(file, 0o644);
    },
    content(part) {
      if (file === undefined) throw new Error('The installation sent content without a file');
      for (let at = 0; at < part.length; ) at += writeSync(file, part, at);
    },
  };
}

const tooLarge = () =>
  invalidComponent(
    `The packages have more than ${JAIL_LIMITS.diskBytes / 2 ** 20} MB when they are unpacked.`,
  );
