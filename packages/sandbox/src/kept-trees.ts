import { randomBytes } from 'node:crypto';
import { renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Trees of packages in process directories. Code cannot change its tree, so the tree of a process that has ended is kept
 * for the next process with the same packages; the least recently used ones are removed, and those of removed sets,
 * whose files they would keep on disk.
 */
export interface KeptTrees {
  /**
   * Moves a kept tree of this set to the path, or makes one there.
   * @param user to which it belongs until `keep`
   */
  place(user: string, set: string, path: string, make: () => Promise<void>): Promise<void>;
  /** The user has ended. */
  keep(user: string): void;
  /** Removes the kept trees of this set. */
  remove(set: string): Promise<void>;
}

interface Tree {
  set: string;
  path: string;
}

const MAX_KEPT = 64;

/** @param directory for kept trees, on the file system of the process directories */
export function createKeptTrees(directory: string): KeptTrees {
  const byUser = new Map<string, Tree>();
  /** Least recently used first. */
  let kept: Tree[] = [];

  async function drop(trees: Tree[]): Promise<void> {
    kept = kept.filter((tree) => !trees.includes(tree));
    await Promise.all(trees.map(({ path }) => rm(path, { recursive: true, force: true })));
  }

  return {
    async place(user, set, path, make) {
      const found = kept.findLastIndex((tree) => tree.set === set);
      if (found < 0) await make();
      else {
        renameSync(kept[found]!.path, path);
        kept.splice(found, 1);
      }
      byUser.set(user, { set, path });
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
      drop(kept.slice(0, -MAX_KEPT)).catch(() => {});
    },
    remove: (set) => drop(kept.filter((tree) => tree.set === set)),
  };
}
