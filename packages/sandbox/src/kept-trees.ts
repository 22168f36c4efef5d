import { randomBytes } from 'node:crypto';
import { renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createDiskRoom, type DiskRoom } from './disk-room.ts';

/**
 * Trees of packages in process directories. Code cannot change its tree, so the tree of a process that has ended is kept
 * for the next process with the same packages; the least recently used ones are removed, and those of removed sets,
 * whose files they would keep on disk. Trees in use count for the owners of their processes: links take no room, but
 * directories do.
 */
export interface KeptTrees {
  /**
   * Moves a kept tree of this set to the path, or makes one there.
   * @param user to which it belongs until `keep`
   * @param make calls `take` before it writes bytes
   * @throws Problem 400 if the owner may not hold more
   */
  place(
    user: string,
    set: string,
    path: string,
    ownerId: string,
    make: (take: DiskRoom['take']) => Promise<void>,
  ): Promise<void>;
  /** The user has ended. */
  keep(user: string): void;
  /** Removes the kept trees of this set. */
  remove(set: string): Promise<void>;
}

interface Tree {
  set: string;
  ownerId: string;
  path: string;
  room: DiskRoom;
}

const MAX_KEPT = 64;
/** 65,536 directories. */
const MAX_KEPT_BYTES = 256 * 1024 * 1024;

const bytesOf = (trees: Tree[]) => trees.reduce((sum, { room }) => sum + room.taken, 0);

/**
 * @param directory for kept trees, on the file system of the process directories
 * @param free bytes that trees may still take
 */
export function createKeptTrees(directory: string, free: () => number): KeptTrees {
  const making = new Set<Tree>();
  const byUser = new Map<string, Tree>();
  /** Least recently used first. */
  let kept: Tree[] = [];

  async function drop(trees: Tree[]): Promise<void> {
    kept = kept.filter((tree) => !trees.includes(tree));
    await Promise.all(trees.map(({ path }) => rm(path, { recursive: true, force: true })));
  }

  return {
    async place(user, set, path, ownerId, make) {
      const held = () =>
        bytesOf([...making, ...byUser.values()].filter((one) => one !== tree && one.ownerId === ownerId));
      const tree: Tree = { set, ownerId, path, room: createDiskRoom(held, free) };
      const found = kept.findLast((one) => one.set === set);
      if (found) {
        tree.room.take(found.room.taken);
        renameSync(found.path, path);
        kept.splice(kept.indexOf(found), 1);
      } else {
        making.add(tree);
        await make(tree.room.take).finally(() => making.delete(tree));
      }
      byUser.set(user, tree);
    },
    keep(user) {
      const tree = byUser.get(user);
      if (!tree) return;
      byUser.delete(user);
      const path = join(directory, randomBytes(16).toString('hex'));
      try {
        renameSync(tree.path, path);
      } catch {
        // It is removed with the process directory.
        return;
      }
      kept.push({ ...tree, path });
      let excess = Math.max(0, kept.length - MAX_KEPT);
      while (bytesOf(kept.slice(excess)) > MAX_KEPT_BYTES) excess += 1;
      drop(kept.slice(0, excess)).catch(() => {});
    },
    remove: (set) => drop(kept.filter((tree) => tree.set === set)),
  };
}
