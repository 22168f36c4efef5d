import { spawn } from 'node:child_process';
import { chmodSync, closeSync, existsSync, openSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isEnterable } from '../readable-files.ts';
import { seccompFilter } from '../seccomp.ts';
import { libraries, NOBODY, ROOT, rootFiles } from './root-files.ts';
import {
  CHILD_LIMITS,
  childEnvironment,
  nodeFlags,
  type Tier,
  type TierOptions,
  TierUnavailable,
  userOf,
} from './tier.ts';

/** Where the packages lie inside. */
const PACKAGES = '/packages';
const PRLIMIT = '/rt/prlimit';

/** Read by the C library when a name is resolved; loaded at run time, so ldd does not list them. */
const RESOLVER_LIBRARIES = ['libnss_files.so.2', 'libnss_dns.so.2', 'libresolv.so.2'];
const RESOLVER_FILES = [
  '/etc/resolv.conf',
  '/etc/hosts',
  '/etc/nsswitch.conf',
  '/etc/ssl/certs',
  '/etc/localtime',
];

function resolverLibraries(): string[] {
  const folders = new Set(libraries(process.execPath).map((path) => dirname(path)));
  return [...folders].flatMap((folder) => RESOLVER_LIBRARIES.map((name) => join(folder, name)));
}

const find = (...paths: string[]): string | undefined => paths.find(existsSync);

/** @returns the path of bubblewrap, or undefined when it is not installed */
export const findBubblewrap = (): string | undefined =>
  find('/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap');

/**
 * Tier A: namespaces of its own for everything, a root that holds Node.js and its libraries and nothing else, an
 * unprivileged user, limits of the kernel and a seccomp filter.
 * @throws TierUnavailable when a program that it needs is missing
 */
export function createBubblewrapTier({
  program,
  directory,
  readable,
  packages,
  codeAllowNetworks,
  heapMb,
}: TierOptions): Tier {
  const bwrap = findBubblewrap();
  if (bwrap === undefined) {
    throw new TierUnavailable(
      'bubblewrap is not installed. Install it (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap).',
    );
  }
  const prlimit = find('/usr/bin/prlimit', '/bin/prlimit');
  if (prlimit === undefined) throw new TierUnavailable('prlimit is not installed. Install util-linux.');
  const files = rootFiles(program, directory);
  if (!isEnterable(directory)) {
    throw new TierUnavailable(
      `Other users may not enter ${directory}. Set TMPDIR to a directory that every user may enter.`,
    );
  }
  const filter = join(directory, 'seccomp.bpf');
  writeFileSync(filter, seccompFilter(process.arch));
  chmodSync(filter, 0o644);
  const bound = new Map([
    [PRLIMIT, prlimit],
    ...libraries(prlimit).map((path): [string, string] => [path, path]),
    ...files.map(({ source, target }): [string, string] => [target, source]),
  ]);

  const root = [
    '--unshare-user',
    '--unshare-pid',
    '--unshare-ipc',
    '--unshare-uts',
    '--unshare-cgroup-try',
    '--uid',
    String(NOBODY),
    '--gid',
    String(NOBODY),
    '--hostname',
    'source',
    '--as-pid-1',
    '--die-with-parent',
    '--new-session',
    '--clearenv',
    ...[...bound].flatMap(([target, source]) => ['--ro-bind', readable.provide(source), target]),
    ...[...resolverLibraries(), ...RESOLVER_FILES].flatMap((path) => ['--ro-bind-try', path, path]),
    '--ro-bind',
    packages,
    PACKAGES,
    '--dev',
    '/dev',
    '--remount-ro',
    '/dev',
    '--size',
    String(CHILD_LIMITS.tmpBytes),
    '--tmpfs',
    ROOT.tmp,
    ...Object.entries(childEnvironment(ROOT.app, ROOT.tmp)).flatMap(([name, value]) => [
      '--setenv',
      name,
      value,
    ]),
  ];
  const { nofile, nproc, fsize } = CHILD_LIMITS;
  // Within the user namespace, where the threads of this sandbox alone are counted.
  const limits = [`--nofile=${nofile}`, `--nproc=${nproc}`, `--fsize=${fsize}`, '--core=0'];
  const command = [
    ...[PRLIMIT, ...limits, '--'],
    ...[ROOT.node, ...nodeFlags(heapMb), ROOT.program, JSON.stringify(codeAllowNetworks)],
  ];

  return {
    name: 'bubblewrap',
    visible: () => ({ app: ROOT.app, egress: ROOT.egress }),
    visiblePackages: PACKAGES,
    kill: (child) => void child.kill('SIGKILL'),
    spawn(slot) {
      const seccomp = openSync(filter, 'r');
      const binds = ['--ro-bind', slot.app, ROOT.app, '--ro-bind', slot.egress, ROOT.egress];
      const args = [...root, ...binds, '--remount-ro', '/', '--chdir', ROOT.app, '--seccomp', '4', '--'];
      const child = spawn(bwrap, [...args, ...command], {
        ...userOf(slot),
        // A group of its own: Ctrl-C in a terminal, meant for the platform, does not end runs under way.
        detached: true,
        env: {},
        cwd: '/',
        stdio: ['ignore', 'pipe', 'pipe', 'pipe', seccomp],
      });
      // spawn() has passed it on by the time it returns.
      closeSync(seccomp);
      return child;
    },
  };
}
