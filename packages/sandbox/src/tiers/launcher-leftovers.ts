import { execFile, execFileSync } from 'node:child_process';
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { provideLauncher } from './compile-launcher.ts';

const run = promisify(execFile);

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

/** Arguments of the launcher for a root whose temporary directory holds files of another user. */
function cleaningOf(root: string): string[] | undefined {
  const [left] = list(join(root, 'tmp'));
  if (left === undefined) return undefined;
  // All files in it have one owner: nobody else had it as a temporary directory.
  const uid = lstatSync(join(root, 'tmp', left), { throwIfNoEntry: false })?.uid;
  return uid === undefined || uid === process.getuid?.()
    ? undefined
    : ['clean', `root=${root}`, `uid=${uid}`];
}

/**
 * Empties the temporary directory of a root whose launcher was killed. It holds files of a user of its own, which a
 * platform that is not root may not remove: the launcher does that as this user. What it cannot remove stays.
 * @param launcher the native launcher
 */
export async function cleanRoot(root: string, launcher: string): Promise<void> {
  const args = cleaningOf(root);
  if (args) await run(launcher, args, { env: {}, timeout: CLEAN_TIMEOUT_MS }).catch(() => {});
}

/** Does that for all roots in a directory. */
export async function cleanRoots(base: string, launcher: string): Promise<void> {
  for (const name of list(base)) await cleanRoot(join(base, name), launcher);
}

/**
 * Does the same at the start of a platform, for all that the platform before it has left.
 * @param base directory of the slots; below it, `shared/packager` has a directory for each process of the packager
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
        // There is no launcher with capabilities, or it took too long.
      }
    }
  }
}
