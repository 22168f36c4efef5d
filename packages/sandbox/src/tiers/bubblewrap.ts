import { execFileSync, spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { LIMITS } from '@wellspring/contract/limits';
import { seccompFilter } from '../seccomp.ts';
import { childEnvironment, NOBODY, nodeFlags, type Tier, type TierOptions } from './tier.ts';

/** Where the packages lie inside. */
const PACKAGES = '/packages';
/** Bytes of the private /tmp. */
const TMP_BYTES = 64 * 1024 * 1024;

/** Read by the C library when a name is resolved; loaded at run time, so ldd does not list them. */
const RESOLVER_LIBRARIES = ['libnss_files.so.2', 'libnss_dns.so.2', 'libresolv.so.2'];
const RESOLVER_FILES = [
  '/etc/resolv.conf',
  '/etc/hosts',
  '/etc/nsswitch.conf',
  '/etc/ssl/certs',
  '/etc/localtime',
];

/** The shared libraries of the Node binary, with the loader. */
function libraries(): string[] {
  const listed = execFileSync('ldd', [process.execPath], { encoding: 'utf8' });
  const found = [...listed.matchAll(/(\/\S+) \(0x/g)].map(([, path]) => path!);
  const folders = new Set(found.map((path) => dirname(path)));
  const resolvers = [...folders].flatMap((folder) => RESOLVER_LIBRARIES.map((name) => join(folder, name)));
  return [...new Set([...found, ...resolvers])].filter(existsSync);
}

/**
 * There is no /proc inside, since it tells of the host; these files stand for what Node reads in it, without which
 * process.memoryUsage() and os.cpus() would throw. The resident size is what an empty process has.
 */
const PROC: Record<string, string> = {
  'self/stat': `1 (node) S 0 1 1 0 -1 ${Array.from({ length: 44 }, (_, at) => (at === 15 ? 16_384 : 0)).join(' ')}\n`,
  meminfo: `MemTotal: ${LIMITS.memoryMb * 1024} kB\nMemFree: ${LIMITS.memoryMb * 512} kB\nMemAvailable: ${LIMITS.memoryMb * 512} kB\n`,
  stat: 'cpu 0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n',
  cpuinfo: 'processor : 0\nmodel name : virtual\ncpu MHz : 2000.000\n',
};

/** @returns the path of bubblewrap, or undefined when it is not installed */
export function findBubblewrap(): string | undefined {
  return ['/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap'].find(existsSync);
}

/**
 * Tier A: namespaces of its own for everything but the network (which the socket guard narrows until the relay does),
 * a root that holds Node and its libraries and nothing else, an unprivileged user, and a seccomp filter.
 */
export function createBubblewrapTier(
  bwrap: string,
  { program, directory, packages, codeAllowNetworks, heapMb, user }: TierOptions,
): Tier {
  mkdirSync(directory, { recursive: true, mode: 0o755 });
  const filter = join(directory, 'seccomp.bpf');
  writeFileSync(filter, seccompFilter(process.arch));
  const passwd = join(directory, 'passwd');
  writeFileSync(passwd, 'nobody:x:65534:65534:nobody:/app:/bin/false\n');
  const proc = Object.entries(PROC).flatMap(([name, content]) => {
    const path = join(directory, name.replaceAll('/', '-'));
    writeFileSync(path, content);
    return ['--ro-bind', path, `/proc/${name}`];
  });

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
    '--ro-bind',
    process.execPath,
    '/rt/node',
    '--ro-bind',
    program,
    '/rt/child.mjs',
    '--ro-bind',
    packages,
    PACKAGES,
    ...libraries().flatMap((path) => ['--ro-bind', path, path]),
    ...RESOLVER_FILES.flatMap((path) => ['--ro-bind-try', path, path]),
    '--ro-bind',
    passwd,
    '/etc/passwd',
    ...proc,
    '--dev',
    '/dev',
    '--remount-ro',
    '/dev',
    '--size',
    String(TMP_BYTES),
    '--tmpfs',
    '/tmp',
    ...Object.entries(childEnvironment('/app', '/tmp')).flatMap(([name, value]) => ['--setenv', name, value]),
  ];
  const command = [
    '/rt/node',
    ...nodeFlags(heapMb),
    '--allow-fs-read=*',
    '--allow-fs-write=/tmp/*',
    '/rt/child.mjs',
    JSON.stringify(codeAllowNetworks),
  ];

  return {
    name: 'bubblewrap',
    visible: () => ({ app: '/app', egress: '/run/eg' }),
    visiblePackages: PACKAGES,
    spawn(slot) {
      const seccomp = openSync(filter, 'r');
      const args = [
        ...root,
        '--ro-bind',
        slot.app,
        '/app',
        '--ro-bind',
        slot.egress,
        '/run/eg',
        '--remount-ro',
        '/',
        '--chdir',
        '/app',
        '--seccomp',
        '4',
        '--',
        ...command,
      ];
      const child = spawn(bwrap, args, {
        ...user,
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
