import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** Paths in the root of a jail. */
export const JAILED = {
  node: '/jail/node',
  packageManager: '/jail/pnpm',
  compiler: '/jail/esbuild',
  program: '/jail/program.mjs',
} as const;

export const JAIL_NODE_FLAGS: readonly string[] = [
  '--max-old-space-size=512',
  '--experimental-vm-modules',
  '--disable-warning=ExperimentalWarning',
];

const resolve = createRequire(import.meta.url).resolve;

/** The package manager: a dependency of this package. */
export const packageManagerPath = (): string => join(dirname(resolve('pnpm/package.json')), 'pnpm');

/** Programs of a jail: paths on the host, by path in the jail. */
export const jailBinaries = (): Record<string, string> => ({
  [JAILED.node]: process.execPath,
  [JAILED.packageManager]: packageManagerPath(),
  [JAILED.compiler]: join(dirname(resolve('esbuild/package.json')), 'bin', 'esbuild'),
});

/** Shared libraries of a program, including the loader; empty if it is linked statically. */
export function libraries(program: string): string[] {
  try {
    const listed = execFileSync('ldd', [program], {
      encoding: 'utf8',
      env: {},
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return [...listed.matchAll(/(\/\S+) \(0x/g)].map(([, path]) => path!).filter(existsSync);
  } catch {
    return [];
  }
}
