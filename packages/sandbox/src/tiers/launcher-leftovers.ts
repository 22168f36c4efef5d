import { execFile, execFileSync } from 'node:child_process';
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Log } from '@wellspring/core/log';
import { provideLauncher } from './compile-launcher.ts';

const run = promisify(execFile);

/** Time limit for removing files: a tree may be very large. */
const CLEAN_TIMEOUT_MS = 60_000;

const list = (directory: string): string[] => {
  try {
    return readdirSync(directory);
  } catch {
    // Missing, not a directory, or not readable.
    return [];
  }
};

/**
 * Arguments with which the launcher removes files of another user from the temporary directory of a sandbox root;
 * undefined: there are none.
 */
function cleanArguments(sandboxRoot: string): string[] | undefined {
  const [entry] = list(join(sandboxRoot, 'tmp'));
  if (entry === undefined) return undefined;
  // All files have the same owner, the only user of this temporary directory.
  const uid = lstatSync(join(sandboxRoot, 'tmp', entry), { throwIfNoEntry: false })?.uid;
  return uid === undefined || uid === process.getuid?.()
    ? undefined
    : ['clean', `root=${sandboxRoot}`, `uid=${uid}`];
}

/**
 * Removes files of another user from the temporary directory of a sandbox root whose launcher was killed. Without superuser
 * rights the platform cannot delete files of other users: the launcher deletes them as their owner. Failures are ignored.
 * @param launcher path of the launcher's executable
 */
export async function cleanRoot(sandboxRoot: string, launcher: string): Promise<void> {
  try {
    const args = cleanArguments(sandboxRoot);
    if (args) await run(launcher, args, { env: {}, timeout: CLEAN_TIMEOUT_MS });
  } catch {
    // The files stay, and so does the directory.
  }
}

/** As `cleanRoot`, for all sandbox roots in a directory. */
export async function cleanRoots(parent: string, launcher: string): Promise<void> {
  for (const name of list(parent)) await cleanRoot(join(parent, name), launcher);
}

/**
 * As `cleanRoots`, when the platform starts: for all sandbox roots that a previous process left behind. It ends at the
 * first failure, since the base directory then cannot be removed and another one is used.
 * @param base parent of the process directories; below it, `shared/packager` has a directory for each process of the packager
 * @param cache directory of the compiled launcher
 * @param timeoutMs for all files together
 */
export function removeLeftovers(base: string, cache: string, log: Log, timeoutMs = CLEAN_TIMEOUT_MS): void {
  const deadline = performance.now() + timeoutMs;
  const packager = join(base, 'shared', 'packager');
  try {
    for (const parent of [base, ...list(packager).map((name) => join(packager, name))]) {
      for (const name of list(parent)) {
        const args = cleanArguments(join(parent, name));
        if (!args) continue;
        const timeout = Math.max(1, Math.ceil(deadline - performance.now()));
        execFileSync(provideLauncher(cache), args, { env: {}, stdio: 'ignore', timeout });
      }
    }
  } catch (error) {
    // The launcher is missing or has no capabilities, or the time was too short.
    log.warn({ directory: base, error: String(error) }, 'sandbox.leftovers_kept');
  }
}
