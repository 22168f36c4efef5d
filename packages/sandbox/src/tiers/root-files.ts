import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { LIMITS } from '@wellspring/contract/limits';
import { SOCKET_NAME } from '../egress/relay-process.ts';
import type { TierOptions } from './tier.ts';

/** A file in the root of a sandbox. */
export interface RootFile {
  /** Path on the host. */
  source: string;
  /** Path in the sandbox. */
  target: string;
}

/** Paths in the sandbox. */
export const ROOT = {
  node: '/rt/node',
  program: '/rt/child.mjs',
  network: '/rt/network.cjs',
  app: '/app',
  /** See TierOptions.caFile. */
  ca: '/rt/ca.pem',
  egress: '/run/eg',
  tmp: '/tmp',
};

/** Arguments of Node in the root of a sandbox. */
export const ROOT_COMMAND: readonly string[] = [
  `--require=${ROOT.network}`,
  ROOT.program,
  `${ROOT.egress}/${SOCKET_NAME}`,
];

/** User and group `nobody` of common systems; also the user inside a sandbox. */
export const NOBODY = 65534;

/**
 * Replaces /proc, which would reveal the host: without these files process.memoryUsage() and os.cpus() would throw. The
 * resident size is that of an empty process.
 */
const SYNTHETIC: Record<string, string> = {
  '/proc/self/stat': `1 (node) S 0 1 1 0 -1 ${Array.from({ length: 44 }, (_, at) => (at === 15 ? 16_384 : 0)).join(' ')}\n`,
  '/proc/meminfo': `MemTotal: ${LIMITS.memoryMb * 1024} kB\nMemFree: ${LIMITS.memoryMb * 512} kB\nMemAvailable: ${LIMITS.memoryMb * 512} kB\n`,
  '/proc/stat': 'cpu 0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n',
  '/proc/cpuinfo': 'processor : 0\nmodel name : virtual\ncpu MHz : 2000.000\n',
  '/etc/passwd': `nobody:x:${NOBODY}:${NOBODY}:nobody:/app:/bin/false\n`,
};

/** Paths of the shared libraries of a program, including the loader. */
export function libraries(program: string): string[] {
  const listed = execFileSync('ldd', [program], { encoding: 'utf8', env: {} });
  return [...listed.matchAll(/(\/\S+) \(0x/g)].map(([, path]) => path!).filter(existsSync);
}

/** Libraries that native addons need and Node.js does not. */
const ADDON_LIBRARIES = [
  'libdl.so.2',
  'libgcc_s.so.1',
  'libm.so.6',
  'libpthread.so.0',
  'libresolv.so.2',
  'librt.so.1',
  'libstdc++.so.6',
  'libutil.so.1',
];

/** The libraries of Node.js, and those of native addons in the same directories. */
function sandboxLibraries(): string[] {
  const own = libraries(process.execPath);
  const directories = new Set(own.map((path) => dirname(path)));
  const others = [...directories].flatMap((directory) =>
    ADDON_LIBRARIES.map((name) => join(directory, name)),
  );
  return [...new Set([...own, ...others.filter(existsSync)])];
}

/** Whether a library is the loader, the only one that the kernel executes. */
export const isLoader = (path: string): boolean => /\/ld-[^/]*\.so[^/]*$/.test(path);

/** Files in the root of a sandbox: Node.js, its libraries, the program of the children, and synthetic files. */
export function rootFiles({ programs, directory, caFile }: TierOptions): RootFile[] {
  const { child, network } = programs;
  mkdirSync(directory, { recursive: true });
  chmodSync(directory, 0o755);
  const synthetic = Object.entries(SYNTHETIC).map(([target, content]) => {
    const source = join(directory, target.slice(1).replaceAll('/', '-'));
    writeFileSync(source, content);
    chmodSync(source, 0o644);
    return { source, target };
  });
  return [
    { source: process.execPath, target: ROOT.node },
    { source: child, target: ROOT.program },
    { source: network, target: ROOT.network },
    ...(caFile === undefined ? [] : [{ source: caFile, target: ROOT.ca }]),
    ...sandboxLibraries().map((path) => ({ source: path, target: path })),
    ...synthetic,
  ];
}

/** Parent directories of the files, outermost first. */
export function directoriesOf(files: readonly RootFile[]): string[] {
  const found = new Set<string>();
  for (const { target } of files) {
    const parts = dirname(target).split('/').filter(Boolean);
    for (let depth = 1; depth <= parts.length; depth += 1) found.add(`/${parts.slice(0, depth).join('/')}`);
  }
  return [...found];
}
