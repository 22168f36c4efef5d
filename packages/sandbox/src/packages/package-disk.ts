import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createDiskRoom, type DiskRoom, freeBytes } from '../disk-room.ts';
import { type DiskItem, removeUnused } from './disk-item.ts';
import { diskUsage, list } from './disk-usage.ts';
import { JAIL_LIMITS } from './jail/jail.ts';

/** The disk of the sets and tarballs, which owners share. A set counts for the owner that installed it. */
export interface PackageDisk {
  /**
   * Space for an installation. If it may not be enough, removes first what was not used lately: tarballs, sets of the
   * owner, then those of others.
   * @param part directory of the installation in `sets/`, which is created
   */
  open(ownerId: string, part: string): Promise<DiskRoom>;
  /** Notes in the directory of a set to whom it belongs, and writes the set to the disk: it can be renamed. */
  sign(set: string, ownerId: string): Promise<void>;
}

const run = promisify(execFile);
const NOTE = 'owner.json';
/** Space that an installation may need. */
const ROOM_BYTES = JAIL_LIMITS.diskBytes;
const MINUTE_MS = 60_000;
/** Longer than MARK_INTERVAL_MS of the bundle files: until then a set may be in use without a mark. */
const OWN_UNUSED_MS = 30 * MINUTE_MS;
const OTHERS_UNUSED_MS = 6 * 60 * MINUTE_MS;

interface Note {
  owner: string;
  bytes: number;
}

/** Undefined: it has none yet, or was removed. */
function readNote(set: string): Note | undefined {
  try {
    return JSON.parse(readFileSync(join(set, NOTE), 'utf8')) as Note;
  } catch {
    return undefined;
  }
}

const writeNote = (set: string, note: Note) => writeFileSync(join(set, NOTE), JSON.stringify(note));

/**
 * Writes the file system of this path to the disk, at once: `fsync` of thousands of files takes seconds. Without the
 * program of the system, a power loss may take content of files.
 */
async function writeToDisk(path: string): Promise<void> {
  try {
    await run('sync', ['-f', path], { env: { PATH: '/usr/bin:/bin' } });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

/**
 * @param directory parent of `sets/` and `tarballs/`
 * @param free bytes that packages may still take; replaced in tests
 */
export function createPackageDisk(
  directory: string,
  now: () => number,
  free: () => number = () => freeBytes(directory),
): PackageDisk {
  /** Without those in progress. Least recently used first. */
  async function itemsOf(name: string): Promise<DiskItem[]> {
    const items: DiskItem[] = [];
    for (const entry of await list(join(directory, name))) {
      const path = join(directory, name, entry.name);
      const found = path.endsWith('.part') ? undefined : await stat(path).catch(() => undefined);
      if (found) items.push({ path, usedAt: found.mtimeMs, bytes: found.size });
    }
    return items.sort((a, b) => a.usedAt - b.usedAt);
  }

  const isUnused = ({ usedAt }: DiskItem, ms: number) => now() - usedAt > ms;

  /** Bytes of the sets of an owner, and of its other installations in progress, which run in other processes. */
  function heldBeside(ownerId: string, part: string): number {
    let held = 0;
    for (const name of readdirSync(join(directory, 'sets'))) {
      const set = join(directory, 'sets', name);
      const note = set === part ? undefined : readNote(set);
      if (note?.owner === ownerId) held += note.bytes;
    }
    return held;
  }

  async function roomOf(ownerId: string, part: string): Promise<DiskRoom> {
    await mkdir(part, { recursive: true });
    let held = 0;
    return createDiskRoom(
      () => held,
      (taken) => {
        // Tells the other installations of the owner how much this one takes.
        writeNote(part, { owner: ownerId, bytes: taken });
        held = heldBeside(ownerId, part);
        return free();
      },
    );
  }

  /** Removes unused items until there is enough space for an installation. */
  async function removeForInstallation(ownerId: string): Promise<void> {
    const [own, others]: [DiskItem[], DiskItem[]] = [[], []];
    for (const item of await itemsOf('sets')) {
      // Sets without a note belong to nobody.
      const { owner, bytes } = readNote(item.path) ?? { owner: '', bytes: await diskUsage(item.path) };
      (owner === ownerId ? own : others).push({ ...item, bytes });
    }
    let held = own.reduce((sum, { bytes }) => sum + bytes, 0);
    let left = free();
    const isEnough = () => left - held >= 2 * ROOM_BYTES;
    if (isEnough()) return;
    const removable = [
      ...(await itemsOf('tarballs')),
      ...own.filter((one) => isUnused(one, OWN_UNUSED_MS)),
      ...others.filter((one) => isUnused(one, OTHERS_UNUSED_MS)),
    ];
    for (const item of removable) {
      if (isEnough()) return;
      if (!(await removeUnused(item))) continue;
      left += item.bytes;
      if (own.includes(item)) held -= item.bytes;
    }
  }

  return {
    async open(ownerId, part) {
      await mkdir(directory, { recursive: true });
      await removeForInstallation(ownerId);
      return roomOf(ownerId, part);
    },
    async sign(set, owner) {
      writeNote(set, { owner, bytes: await diskUsage(set) });
      await writeToDisk(set);
    },
  };
}
