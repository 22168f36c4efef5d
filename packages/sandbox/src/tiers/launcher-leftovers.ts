import { execFile, execFileSync } from 'node:child_process';
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { provideLauncher } from './compile-launcher.ts';

const run = promisify(execFile);

/** Time limit for removing a tree, which may be very large. */
const CLEAN_TIMEOUT_MS = 60_000;

const list = (directory: string): string[] => {
  try {
    return readdirSync(directory);
  } catch {
    // Not a directory.
    return [];
  }
};

/** Arguments of the launcher that remove files of another user from the temporary directory of a root. */
function cleaningOf(root: string): string[] | undefined {
  const [left] = list(join(root, 'tmp'));
  if (left === undefined) return undefined;
  // All files have the same owner, the only user of this temporary directory.
  const uid = lstatSync(join(root, 'tmp', left), { throwIfNoEntry: false })?.uid;
  return uid === undefined || uid === process.getuid?.()
    ? undefined
    : ['clean', `root=${root}`, `uid=${uid}`];
}

/**
 * Empties the temporary directory of a root whose launcher was killed. A platform that is not root must not remove
 * files of other users: the launcher removes them as their owner, and ignores failures.
 * @param launcher the native launcher
 */
export async function cleanRoot(root: string, launcher: string): Promise<void> {
  const args = cleaningOf(root);
  if (args) await run(launcher, args, { env: {}, timeout: CLEAN_TIMEOUT_MS }).catch(() => {});
}

/** As `cleanRoot`, for all roots in a directory. */
export async function cleanRoots(base: string, launcher: string): Promise<void> {
  for (const name of list(base)) await cleanRoot(join(base, name), launcher);
}

/**
 * As `cleanRoots`, when the platform starts: for all directories that the previous platform has left.
 * @param parent of the process directories; below it, `shared/packager` has a directory for each process of the packager
 * @param cache see LauncherOptions
 */
export function removeLeftovers(base: string, cache: string): void {
  const packager = join(base, 'shared', 'packager');
  for (const roots of [base, ...list(packager).map((name) => join(packager, name))]) {
    for (const name of list(roots)) {
      const args = cleaningOf(join(roots, name));
      try {
        if (args)
          execFileSync(provideLauncher(cache), args, { env: {}, stdio: 'ignore', timeout: CLEAN_TIMEOUT_MS });
      } catch {
        // No launcher with capabilities, or a timeout.
      }
    }
  }
}
