import { execFileSync, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setPriority } from 'node:os';
import { dirname, join } from 'node:path';
import { JAIL_LIMITS, JAIL_PRIORITY, type Jail, type JailOptions, withLimits } from './jail.ts';

const NOBODY = '65534';
const GATEWAY = '/run/gateway';
const LOCKS_BYTES = 4 * 1024 * 1024;

/** The shared libraries of a program, with the loader; none when it is linked statically. */
function libraries(program: string): string[] {
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

/** Programs that come with packages of this workspace: no machine needs its own. */
export const packageManagerPath = (): string =>
  join(dirname(createRequire(import.meta.url).resolve('pnpm/package.json')), 'pnpm');
export const compilerPath = (): string =>
  join(dirname(createRequire(import.meta.url).resolve('esbuild/package.json')), 'bin', 'esbuild');

/**
 * A jail of namespaces: no network but loopback of its own, no file of the host but the programs, their libraries and
 * the socket of the gateway, a working directory in memory, no environment, an unprivileged user.
 */
export function createBubblewrapJail(bwrap: string, options: JailOptions): Jail {
  const { programs, gatewaySocket, user, readable } = options;
  const binaries: Record<string, string> = {
    '/jail/node': process.execPath,
    '/jail/pnpm': packageManagerPath(),
    '/jail/esbuild': compilerPath(),
  };
  const root = [
    '--unshare-all',
    '--uid',
    NOBODY,
    '--gid',
    NOBODY,
    '--hostname',
    'packager',
    '--as-pid-1',
    '--die-with-parent',
    '--new-session',
    '--clearenv',
    ...Object.entries(binaries).flatMap(([target, source]) => ['--ro-bind', readable(source), target]),
    ...[...new Set(Object.values(binaries).flatMap(libraries))].flatMap((path) => ['--ro-bind', path, path]),
    '--dev',
    '/dev',
    '--remount-ro',
    '/dev',
    '--setenv',
    'ESBUILD_BINARY_PATH',
    '/jail/esbuild',
    '--setenv',
    'TMPDIR',
    '/work',
    '--setenv',
    'HOME',
    '/work',
    '--size',
    String(JAIL_LIMITS.diskBytes),
    '--tmpfs',
    '/work',
    // The package manager keeps its locks there, whatever TMPDIR says.
    '--size',
    String(LOCKS_BYTES),
    '--tmpfs',
    '/tmp',
  ];

  return {
    name: 'bubblewrap',
    singleUse: true,
    spawn(program) {
      const [path, gateway] =
        program === 'compile'
          ? [programs.compileNative, []]
          : [programs.install, ['--ro-bind', dirname(gatewaySocket), GATEWAY]];
      const [file, args] = withLimits(program, [
        bwrap,
        ...root,
        '--ro-bind',
        path,
        '/jail/program.mjs',
        ...gateway,
        '--remount-ro',
        '/',
        '--chdir',
        '/work',
        '--',
        '/jail/node',
        '--max-old-space-size=512',
        '--experimental-vm-modules',
        '--disable-warning=ExperimentalWarning',
        '/jail/program.mjs',
      ]);
      const child = spawn(file, args, {
        ...user,
        detached: true,
        env: {},
        cwd: '/',
        stdio: ['pipe', 'pipe', 'pipe'],
      });
      lowerPriority(child.pid);
      return {
        child,
        view: {
          directory: '/work',
          packageManager: '/jail/pnpm',
          gatewaySocket: `${GATEWAY}/${gatewaySocket.slice(dirname(gatewaySocket).length + 1)}`,
        },
        async end() {
          child.kill('SIGKILL');
        },
      };
    },
  };
}

export function lowerPriority(pid: number | undefined): void {
  try {
    if (pid !== undefined) setPriority(pid, JAIL_PRIORITY);
  } catch {
    // It has ended already.
  }
}
