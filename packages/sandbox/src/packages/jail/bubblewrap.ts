import { spawn } from 'node:child_process';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { lowerPriority } from '../../scheduling.ts';
import { type FilterPurpose, seccompFilter } from '../../seccomp.ts';
import { killTree } from '../../spawner/process-tree.ts';
import { JAIL_NODE_FLAGS, JAILED, jailBinaries, libraries } from './binaries.ts';
import { JAIL_LIMITS, JAIL_USAGE, type Jail, type Jailed, type JailOptions, withLimits } from './jail.ts';

const NOBODY = '65534';
const GATEWAY = '/run/gateway';
const LOCKS_BYTES = 4 * 1024 * 1024;
const FILTER_DESCRIPTOR = 3;

/**
 * A jail of namespaces: a private loopback as its only network; of the host's files only the programs, their libraries
 * and the socket of the gateway; a working directory in memory; no environment; an unprivileged user; seccomp.
 */
export function createBubblewrapJail(bwrap: string, options: JailOptions): Jail {
  const { programs, directory, gateway, user, readable } = options;
  const binaries = jailBinaries();
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
    '--clearenv',
    ...Object.entries(binaries).flatMap(([target, source]) => [
      '--ro-bind',
      readable.provide(source),
      target,
    ]),
    ...[...new Set(Object.values(binaries).flatMap(libraries))].flatMap((path) => ['--ro-bind', path, path]),
    '--dev',
    '/dev',
    '--remount-ro',
    '/dev',
    '--setenv',
    'ESBUILD_BINARY_PATH',
    JAILED.compiler,
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
    // The package manager ignores TMPDIR for its locks.
    '--size',
    String(LOCKS_BYTES),
    '--tmpfs',
    '/tmp',
  ];

  function filterFor(purpose: FilterPurpose): string {
    const path = join(directory, `${purpose}.bpf`);
    writeFileSync(path, seccompFilter(process.arch, purpose));
    return path;
  }
  const kinds = {
    compile: { path: programs.compileNative, filter: filterFor('compile'), binds: [] },
    install: {
      path: programs.install,
      filter: filterFor('install-by-loopback'),
      binds: ['--ro-bind', dirname(gateway.socket), GATEWAY],
    },
  };

  return {
    name: 'bubblewrap',
    sharesCompilers: false,
    spawn(program) {
      const { path, filter, binds } = kinds[program];
      const [file, args] = withLimits(program, [
        bwrap,
        ...root,
        '--ro-bind',
        path,
        JAILED.program,
        ...binds,
        '--remount-ro',
        '/',
        '--chdir',
        '/work',
        '--seccomp',
        String(FILTER_DESCRIPTOR),
        '--',
        JAILED.node,
        ...JAIL_NODE_FLAGS,
        JAILED.program,
      ]);
      // Opened for each process, since bubblewrap reads from the position of the descriptor.
      const opened = openSync(filter, 'r');
      const child = spawn(file, args, {
        ...user,
        // A new session, which the processes of the jail share and which `lowerPriority` means.
        detached: true,
        env: {},
        cwd: '/',
        stdio: ['pipe', 'pipe', 'pipe', opened],
      }) as Jailed['child'];
      closeSync(opened);
      lowerPriority(child.pid);
      return {
        child,
        view: {
          directory: '/work',
          packageManager: JAILED.packageManager,
          gateway: { socket: `${GATEWAY}/${basename(gateway.socket)}` },
          // Bubblewrap limits the bytes of a tmpfs, not its inodes.
          limits: JAIL_USAGE,
        },
        isFull: () => false,
        async end() {
          killTree(child);
        },
      };
    },
  };
}
