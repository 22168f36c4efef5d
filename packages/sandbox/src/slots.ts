import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
} from 'node:fs';
import { chmod, copyFile, link, mkdir, readdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createSharedSets } from './shared-sets.ts';
import type { UserIds } from './user-ids.ts';

/** The directories of one process. They are never used again. */
export interface Slot {
  /** Random; names the slot in logs. */
  id: string;
  /** Holds the directories below. */
  path: string;
  /** The code, and a link to its packages. Read-only for the process. */
  app: string;
  /** Holds the socket through which the process reaches the network. Read-only for the process. */
  egress: string;
  /** TMPDIR of the process in tiers that cannot give it a tmpfs. */
  tmp: string;
  /** User and group id that no other slot has; undefined where there are none to give. */
  uid: number | undefined;
}

/** What a slot is filled with. */
export interface Files {
  /** The code on disk. */
  path: string;
  /** Its name in the slot: the ending tells Node what it is. */
  name: string;
  nodeModules: string | undefined;
}

/** The slots of all processes. They lie outside of the data directory, which only the platform may enter. */
export interface Slots {
  /** For programs and the like that all processes share. */
  shared: string;
  /** Sets of packages, under names that cannot be guessed; nobody may list it, so a source reads only its own. */
  packages: string;
  create(): Slot;
  /**
   * Puts the code and its packages into a slot.
   * @param visiblePackages `packages` as the process sees it; undefined: it sees its slot only, which gets the packages
   */
  fill(slot: Slot, files: Files, visiblePackages: string | undefined): Promise<void>;
  remove(slot: Slot): void;
  close(): void;
}

/**
 * A directory of ours, empty; the same one for the same data, so that nothing is left behind by a crash. Two platforms
 * may be given the same relative path in different working directories: the absolute one tells them apart.
 * @param removeForeign removes files of other users from slots
 */
function baseFor(dataDir: string, removeForeign: (base: string) => void): string {
  const path = join(
    tmpdir(),
    `wellspring-${createHash('sha256').update(resolve(dataDir)).digest('hex').slice(0, 16)}`,
  );
  try {
    mkdirSync(path, { mode: 0o711 });
  } catch {
    const found = lstatSync(path);
    // Somebody else's directory, or a link: not to be trusted.
    if (!found.isDirectory() || found.uid !== process.getuid?.()) return mkdtempSync(`${path}-`);
    try {
      empty(path);
    } catch {
      removeForeign(path);
      try {
        empty(path);
      } catch {
        // What is in it must not keep the platform from its start.
        return mkdtempSync(`${path}-`);
      }
    }
    mkdirSync(path, { mode: 0o711 });
  }
  return path;
}

/** A directory with exactly these permissions, whatever the umask. */
function makeDirectory(path: string, mode: number): string {
  mkdirSync(path, { recursive: true });
  chmodSync(path, mode);
  return path;
}

/** Removes it with all it holds. */
function empty(base: string): void {
  const packages = join(base, 'packages');
  if (existsSync(packages)) chmodSync(packages, 0o700);
  rmSync(base, { recursive: true, force: true });
}

/** As linkFile, at once. */
function placeFile(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to);
  }
}

async function linkFile(from: string, to: string): Promise<void> {
  await link(from, to).catch((error: { code?: string }) => {
    if (error.code === 'EXDEV' || error.code === 'EPERM' || error.code === 'EMLINK')
      return copyFile(from, to);
    throw error;
  });
}

async function linkTree(from: string, to: string): Promise<void> {
  await mkdir(to);
  await chmod(to, 0o755);
  await Promise.all(
    (await readdir(from, { withFileTypes: true })).map(async (entry) => {
      const [source, target] = [join(from, entry.name), join(to, entry.name)];
      if (entry.isDirectory()) await linkTree(source, target);
      // There are no links in a set of packages; one that is there in spite of that is not followed.
      else if (entry.isFile()) await linkFile(source, target);
    }),
  );
}

/** @param removeForeign removes from slots what files of other users a crash has left and the platform may not remove */
export function createSlots(
  dataDir: string,
  userIds: UserIds | undefined,
  removeForeign: (base: string) => void = () => {},
): Slots {
  const base = makeDirectory(baseFor(dataDir, removeForeign), 0o711);
  const shared = makeDirectory(join(base, 'shared'), 0o755);
  const packages = makeDirectory(join(base, 'packages'), 0o311);
  /** Sets of packages, each linked once for all slots that use it. */
  const sets = createSharedSets(
    async (nodeModules) => {
      const name = randomBytes(16).toString('hex');
      await mkdir(join(packages, name));
      await chmod(join(packages, name), 0o755);
      await linkTree(nodeModules, join(packages, name, 'node_modules'));
      return name;
    },
    (name) => void rm(join(packages, name), { recursive: true, force: true }).catch(() => {}),
  );

  return {
    shared,
    packages,
    create() {
      const id = randomBytes(12).toString('hex');
      // The slot is the root directory of the process in tiers that change it: what the process sees there is set here.
      const path = makeDirectory(join(base, id), 0o711);
      makeDirectory(join(path, 'run'), 0o755);
      return {
        id,
        path,
        app: makeDirectory(join(path, 'app'), 0o755),
        egress: makeDirectory(join(path, 'run', 'eg'), 0o755),
        tmp: makeDirectory(join(path, 'tmp'), 0o700),
        uid: userIds?.allocate(),
      };
    },
    async fill(slot, { path, name, nodeModules }, visiblePackages) {
      // Without a thread of the pool, which may be busy: the first call of a process waits for this.
      placeFile(path, join(slot.app, name));
      if (nodeModules === undefined) return;
      const target = join(slot.app, 'node_modules');
      if (visiblePackages === undefined) await linkTree(nodeModules, target);
      else {
        const name = await sets.use(slot.id, nodeModules);
        await symlink(join(visiblePackages, name, 'node_modules'), target);
      }
    },
    remove({ id, path, uid }) {
      sets.release(id);
      // The launcher may be removing files of its own accord.
      rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
        // The id must not meet files of the one who had it before.
        .then(() => uid !== undefined && userIds?.release(uid))
        .catch(() => {});
    },
    close: () => empty(base),
  };
}
