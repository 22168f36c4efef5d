import { randomBytes } from 'node:crypto';
import { existsSync, renameSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Trees of packages in process directories. Code cannot change its tree, so the tree of a process that has ended is kept
 * for the next process with the same packages; the least recently used ones are removed, and those of removed packages,
 * whose files they would keep on disk.
 */
export interface KeptTrees {
  /**
   * Moves a kept tree of these packages to the path, or makes one there.
   * @param packages path of the set
   * @param user to which it belongs until `keep`
   */
  place(user: string, packages: string, path: string, make: () => Promise<void>): Promise<void>;
  /** The user has ended. */
  keep(user: string): void;
}

interface Tree {
  packages: string;
  path: string;
}

const MAX_KEPT = 64;

/** @param directory for kept trees, on the file system of the process directories */
export function createKeptTrees(directory: string): KeptTrees {
  const byUser = new Map<string, Tree>();
  /** Least recently used first. */
  let kept: Tree[] = [];

  function removeOld(): void {
    const present = kept.filter(({ packages }) => existsSync(packages)).slice(-MAX_KEPT);
    for (const { path } of kept.filter((tree) => !present.includes(tree)))
      rm(path, { recursive: true, force: true }).catch(() => {});
    kept = present;
  }

  return {
    async place(user, packages, path, make) {
      const found = kept.findLastIndex((tree) => tree.packages === packages);
      if (found < 0) await make();
      else {
        renameSync(kept[found]!.path, path);
        kept.splice(found, 1);
      }
      byUser.set(user, { packages, path });
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
      removeOld();
    },
  };
}
