import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TierUnavailable } from './tier.ts';

const SOURCE = fileURLToPath(new URL('../../native/launcher.c', import.meta.url));
/** Path in images, where it has file capabilities. */
const INSTALLED = '/usr/local/lib/wellspring/launcher';
const COMPILERS = ['cc', 'gcc', 'clang'].flatMap((name) => [`/usr/bin/${name}`, `/usr/local/bin/${name}`]);

/** @returns the path of a C compiler of this machine */
export const findCompiler = (): string | undefined => COMPILERS.find(existsSync);

/**
 * Finds the native launcher of the image, or compiles it once.
 * @param cache directory of the compiled launcher
 * @throws TierUnavailable if it is not installed and cannot be compiled
 */
export function provideLauncher(cache: string): string {
  if (existsSync(INSTALLED)) return INSTALLED;
  const compiler = findCompiler();
  if (compiler === undefined) {
    throw new TierUnavailable(
      'The launcher is not installed, and there is no C compiler to build it. Install one (Debian, Ubuntu: apt-get install gcc libc6-dev), or bubblewrap.',
    );
  }
  const version = createHash('sha256').update(readFileSync(SOURCE)).digest('hex').slice(0, 16);
  const path = join(cache, `launcher-${version}-${process.arch}`);
  // After a power loss, its name may have no content.
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0) return path;
  mkdirSync(cache, { recursive: true, mode: 0o700 });
  const work = mkdtempSync(join(cache, 'compile-'));
  try {
    const output = join(work, 'launcher');
    execFileSync(compiler, ['-O2', '-o', output, SOURCE], {
      env: { PATH: '/usr/bin:/bin' },
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: 60_000,
    });
    const compiled = openSync(output, 'r');
    fsyncSync(compiled);
    closeSync(compiled);
    renameSync(output, path);
  } catch (error) {
    throw new TierUnavailable(`The launcher could not be compiled: ${(error as Error).message}`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return path;
}
