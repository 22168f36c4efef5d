import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { PRELOAD } from '../protocol.ts';
import { isEnterable } from '../readable-files.ts';
import { seccompFilter } from '../seccomp.ts';
import { libraries, NOBODY, ROOT, ROOT_COMMAND, rootFiles } from './root-files.ts';
import {
  CHILD_LIMITS,
  childEnvironment,
  nodeFlags,
  type Tier,
  type TierOptions,
  TierUnavailable,
  userOf,
} from './tier.ts';

/** Path of the packages in the sandbox. */
const PACKAGES = '/packages';
const PRLIMIT = '/rt/prlimit';
const DEVICES = ['/dev/null', '/dev/random', '/dev/urandom'];

const find = (...paths: string[]): string | undefined => paths.find(existsSync);

/** @returns the path of bubblewrap; undefined if it is not installed */
export const findBubblewrap = (): string | undefined =>
  find('/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap');

/** Hard limit of the platform for core files, which a child cannot raise. */
function hardCoreLimit(): number {
  const limits = readFileSync('/proc/self/limits', 'utf8');
  const hard = /^Max core file size +\S+ +(\S+)/m.exec(limits)?.[1];
  return hard === undefined || hard === 'unlimited' ? Number.POSITIVE_INFINITY : Number(hard);
}

/**
 * Tier A: separate namespaces, with an empty network; a root with only Node.js and its libraries; an unprivileged user;
 * kernel limits; a seccomp filter.
 * @throws TierUnavailable if a required program is missing
 */
export function createBubblewrapTier(options: TierOptions): Tier {
  const { directory, readable, packages, caFile, heapMb } = options;
  const bwrap = findBubblewrap();
  if (bwrap === undefined) {
    throw new TierUnavailable(
      'bubblewrap is not installed. Install it (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf install bubblewrap).',
    );
  }
  const prlimit = find('/usr/bin/prlimit', '/bin/prlimit');
  if (prlimit === undefined) throw new TierUnavailable('prlimit is not installed. Install util-linux.');
  const files = rootFiles(options);
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
    '--unshare-net',
    '--unshare-cgroup-try',
    '--uid',
    String(NOBODY),
    '--gid',
    String(NOBODY),
    '--hostname',
    'source',
    '--as-pid-1',
    '--die-with-parent',
    '--clearenv',
    ...[...bound].flatMap(([target, source]) => ['--ro-bind', readable.provide(source), target]),
    '--ro-bind',
    packages,
    PACKAGES,
    // No /dev/zero, whose shared mappings are memory that is not counted, and no terminals.
    ...DEVICES.flatMap((path) => ['--dev-bind', path, path]),
    '--size',
    String(CHILD_LIMITS.tmpBytes),
    '--tmpfs',
    ROOT.tmp,
    ...Object.entries(childEnvironment(ROOT.app, ROOT.tmp, caFile && ROOT.ca)).flatMap(([name, value]) => [
      '--setenv',
      name,
      value,
    ]),
  ];
  const { nofile, nproc, fsize, sigpending } = CHILD_LIMITS;
  const core = Math.min(CHILD_LIMITS.core, hardCoreLimit());
  // Set within the user namespace, where only the threads of this sandbox are counted.
  const limits = Object.entries({ nofile, nproc, fsize, core, sigpending }).map(
    ([name, value]) => `--${name}=${value}`,
  );
  const command = [...[PRLIMIT, ...limits, '--'], ...[ROOT.node, ...nodeFlags(heapMb), ...ROOT_COMMAND]];

  return {
    name: 'bubblewrap',
    visible: () => ({ app: ROOT.app, egress: ROOT.egress }),
    visiblePackages: PACKAGES,
    command(directory, { preload }) {
      const binds = ['--ro-bind', directory.app, ROOT.app, '--ro-bind', directory.egress, ROOT.egress];
      const last = ['--remount-ro', '/', '--chdir', ROOT.app, '--seccomp', '4', '--'];
      return {
        file: bwrap,
        args: [...root, ...binds, ...last, ...command, ...(preload ? [PRELOAD] : [])],
        ...userOf(directory),
        env: {},
        cwd: '/',
        input: filter,
        killMethod: 'tree',
      };
    },
  };
}
