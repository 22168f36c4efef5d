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
import { chmod, mkdir, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Bundle } from '@wellspring/contract/definition';
import { freeBytes } from './disk-room.ts';
import { createKeptTrees } from './kept-trees.ts';
import { linkTree } from './link-tree.ts';
import { removeTree } from './remove-tree.ts';
import { createSharedSets, type SetOwner } from './shared-sets.ts';
import type { UserIds } from './user-ids.ts';

/** The directories of one process. They are not reused. */
export interface ProcessDirectory {
  /** Random; identifies the process directory in logs. */
  id: string;
  /** Parent of the directories below. */
  path: string;
  /** The code, and a link to its packages. Read-only for the process. */
  app: string;
  /** Contains the socket for network access. Read-only for the process. */
  egress: string;
  /** TMPDIR of the process in tiers without tmpfs. */
  tmp: string;
  /** Exclusive user and group id; undefined: see createUserIds. */
  uid: number | undefined;
}

/** Content of a process directory. */
export interface Files {
  /** Path of the code. */
  path: string;
  /** File name in the process directory; its extension tells Node the module format. */
  name: string;
  format: Bundle['format'];
  nodeModules: string | undefined;
}

/** Directories of all sandbox processes, outside of the data directory, which only the platform may enter. */
export interface ProcessDirectories {
  /** Directory for programs and other files that processes share. */
  shared: string;
  /** Directory of package sets with random names. It cannot be listed, so a source can only read its own set. */
  packages: string;
  create(): ProcessDirectory;
  /**
   * Places the code and its packages in a process directory.
   * @param visiblePackages path of `packages` in the sandbox; undefined: it is not visible, so packages are linked into
   *   the process directory
   * @param owner shares the main thread with other owners, and the disk if packages have to be copied
   * @throws Problem 400 if there is no room for the packages
   */
  fill(
    directory: ProcessDirectory,
    files: Files,
    visiblePackages: string | undefined,
    owner: SetOwner,
  ): Promise<void>;
  remove(directory: ProcessDirectory): void;
  close(): void;
}

/**
 * An empty base directory of the platform; the same one for the same data directory, so that leftovers of a crash are
 * removed. Named after the absolute path, since two platforms may have the same relative path.
 * @param removeForeign removes files of other users from process directories
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
    // The directory of another user, or a link: not trusted.
    if (!found.isDirectory() || found.uid !== process.getuid?.()) return mkdtempSync(`${path}-`);
    try {
      removeBase(path);
    } catch {
      removeForeign(path);
      try {
        removeBase(path);
      } catch {
        // Leftovers must not prevent the start.
        return mkdtempSync(`${path}-`);
      }
    }
    mkdirSync(path, { mode: 0o711 });
  }
  return path;
}

/** Creates a directory with exactly these permissions, regardless of the umask. */
function makeDirectory(path: string, mode: number): string {
  mkdirSync(path, { recursive: true });
  chmodSync(path, mode);
  return path;
}

/** Removes the base directory. */
function removeBase(base: string): void {
  const packages = join(base, 'packages');
  if (existsSync(packages)) chmodSync(packages, 0o700);
  rmSync(base, { recursive: true, force: true });
}

/** Links or copies a file, synchronously. */
function placeFile(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to);
  }
}

/**
 * @param removeForeign removes files of other users that a crash has left in process directories
 * @param freeForTrees bytes that trees of packages may still take; replaced in tests
 */
export function createProcessDirectories(
  dataDir: string,
  userIds: UserIds | undefined,
  removeForeign: (base: string) => void = () => {},
  // With the reserve: processes start on a disk that is nearly full, too.
  freeForTrees: (path: string) => number = (path) => freeBytes(path, true),
): ProcessDirectories {
  const base = makeDirectory(baseFor(dataDir, removeForeign), 0o711);
  const shared = makeDirectory(join(base, 'shared'), 0o755);
  const packages = makeDirectory(join(base, 'packages'), 0o311);
  /** Of tiers in which a process sees nothing besides its process directory. */
  const trees = createKeptTrees(makeDirectory(join(base, 'trees'), 0o700), () => freeForTrees(base));
  /** Each set of packages is linked once for all process directories that use it. */
  const removeSet = (name: string) => rm(join(packages, name), { recursive: true, force: true });
  const sets = createSharedSets({
    async make(nodeModules, { inTurns }, take) {
      const name = randomBytes(16).toString('hex');
      await mkdir(join(packages, name));
      await chmod(join(packages, name), 0o755);
      try {
        await linkTree(nodeModules, join(packages, name, 'node_modules'), inTurns, take);
        // The copy may lack files that were removed meanwhile.
        if (!existsSync(nodeModules)) throw new Error('The packages were removed while they were linked.');
        return name;
      } catch (error) {
        await removeSet(name);
        throw error;
      }
    },
    async remove(name) {
      await Promise.all([trees.remove(name), removeSet(name)]);
    },
    isPresent: existsSync,
    free: () => freeBytes(packages),
  });

  return {
    shared,
    packages,
    create() {
      // Before any directory is made: all may be in use.
      const uid = userIds?.allocate();
      const id = randomBytes(12).toString('hex');
      const path = join(base, id);
      try {
        // In some tiers the process directory is the root directory of the process, which sees these permissions.
        makeDirectory(path, 0o711);
        makeDirectory(join(path, 'run'), 0o755);
        return {
          id,
          path,
          app: makeDirectory(join(path, 'app'), 0o755),
          egress: makeDirectory(join(path, 'run', 'eg'), 0o755),
          tmp: makeDirectory(join(path, 'tmp'), 0o700),
          uid,
        };
      } catch (error) {
        rmSync(path, { recursive: true, force: true });
        if (uid !== undefined) userIds?.release(uid);
        throw error;
      }
    },
    async fill(directory, { path, name, nodeModules }, visiblePackages, owner) {
      // Synchronous, since the first call waits for this and the thread pool may be busy.
      placeFile(path, join(directory.app, name));
      if (nodeModules === undefined) return;
      const target = join(directory.app, 'node_modules');
      const set = await sets.use(directory.id, nodeModules, owner);
      if (visiblePackages !== undefined) {
        await symlink(join(visiblePackages, set, 'node_modules'), target);
        return;
      }
      // The files of the set are on this file system, so no process needs copies of its own.
      const link = (take: (bytes: number) => void) =>
        linkTree(join(packages, set, 'node_modules'), target, owner.inTurns, take, take);
      await trees.place(directory.id, set, target, owner.id, link);
    },
    remove({ id, path, uid }) {
      trees.keep(id);
      sets.release(id);
      removeTree(path)
        // Reusing the id gives access to files of the previous process, so those have to be gone.
        .then(() => uid !== undefined && userIds?.release(uid))
        .catch(() => {});
    },
    close: () => removeBase(base),
  };
}
