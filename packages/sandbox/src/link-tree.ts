import { chmodSync, linkSync, mkdirSync, opendirSync } from 'node:fs';
import { copyFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { onDisk } from './disk-room.ts';
import type { InTurns } from './turns.ts';

/** Errors of file systems that cannot link this file. */
const UNLINKABLE = new Set(['EXDEV', 'EPERM', 'EMLINK']);
const PARALLEL_COPIES = 8;

/**
 * Copies a tree as directories with hard links. Links are made synchronously, which takes a fraction of the time, but in
 * turns: a set of packages may have 100,000 files. Files that cannot be linked are copied.
 * @param take called before bytes are copied
 * @param takeDirectory called before a directory is made, which takes a block
 * @throws what `take` and `takeDirectory` throw
 */
export async function linkTree(
  from: string,
  to: string,
  inTurns: InTurns,
  take: (bytes: number) => void,
  takeDirectory: (bytes: number) => void = () => {},
): Promise<void> {
  const copies: [source: string, target: string][] = [];
  const steps = linkEntries(from, to, copies, takeDirectory);
  await inTurns((deadline) => {
    while (performance.now() < deadline) if (steps.next().done) return false;
    return true;
  });
  while (copies.length > 0) {
    const some = copies.splice(-PARALLEL_COPIES);
    const sizes = await Promise.all(some.map(async ([source]) => onDisk((await stat(source)).size)));
    take(sizes.reduce((sum, size) => sum + size, 0));
    await Promise.all(some.map(([source, target]) => copyFile(source, target)));
  }
}

/** Yields after each file and directory. */
function* linkEntries(
  from: string,
  to: string,
  copies: [string, string][],
  takeDirectory: (bytes: number) => void,
): Generator<void> {
  takeDirectory(onDisk(0));
  mkdirSync(to);
  chmodSync(to, 0o755);
  const directory = opendirSync(from);
  try {
    for (let entry = directory.readSync(); entry; entry = directory.readSync()) {
      const [source, target] = [join(from, entry.name), join(to, entry.name)];
      if (entry.isDirectory()) yield* linkEntries(source, target, copies, takeDirectory);
      // Sets of packages contain no links; unexpected ones are ignored.
      else if (entry.isFile() && !isLinked(source, target)) copies.push([source, target]);
      yield;
    }
  } finally {
    directory.closeSync();
  }
}

/** @returns false if the file cannot be linked */
function isLinked(source: string, target: string): boolean {
  try {
    linkSync(source, target);
    return true;
  } catch (error) {
    if (UNLINKABLE.has((error as { code?: string }).code ?? '')) return false;
    throw error;
  }
}
