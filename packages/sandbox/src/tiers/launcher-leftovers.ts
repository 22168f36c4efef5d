import { execFileSync } from 'node:child_process';
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { provideLauncher } from './compile-launcher.ts';

/** A tree of a hostile size is removed in this time, or left. */
const CLEAN_TIMEOUT_MS = 60_000;

const list = (directory: string): string[] => {
  try {
    return readdirSync(directory);
  } catch {
    // It is no directory.
    return [];
  }
};

/**
 * Empties the temporary directories of slots whose launcher was killed. They hold files of the slots' own users, which a
 * platform that is not root may not remove: the launcher does that as their user. What it cannot remove stays.
 * @param base holds the slots
 * @param cache see LauncherOptions
 */
export function removeLeftovers(base: string, cache: string): void {
  for (const slot of list(base)) {
    const root = join(base, slot);
    const [left] = list(join(root, 'tmp'));
    if (left === undefined) continue;
    try {
      // All files in it have one owner: nobody else had it as a temporary directory.
      const { uid } = lstatSync(join(root, 'tmp', left));
      if (uid === process.getuid?.()) continue;
      execFileSync(provideLauncher(cache), ['clean', `root=${root}`, `uid=${uid}`], {
        env: {},
        stdio: 'ignore',
        timeout: CLEAN_TIMEOUT_MS,
      });
    } catch {
      // There is no launcher with capabilities, or it took too long.
    }
  }
}
