import type { ProcessDirectory } from '../process-directories.ts';
import { CA_VARIABLE } from '../protocol.ts';
import type { ReadableFiles } from '../readable-files.ts';
import type { Programs } from '../runtime-files.ts';
import type { Command } from '../spawner/messages.ts';

export type TierName = 'bubblewrap' | 'launcher' | 'none';

/** A kind of isolation. */
export interface Tier {
  readonly name: TierName;
  /**
   * Prepares the process directory for a child, which exchanges frames on descriptor 3. Its code is placed in its `app` later.
   * @param options.preload see PRELOAD
   * @returns how to start the child, and how to kill it with its descendants
   */
  command(directory: ProcessDirectory, options: { preload: boolean }): Command;
  /**
   * True: SIGTSTP and SIGCONT to the started process stop and continue the Node process. Otherwise the platform signals
   * the Node process itself.
   */
  readonly relaysStops?: true;
  /** The limit for which the tier killed a child, by exit code; undefined if it did not kill it. */
  endedFor?(exitCode: number | null): string | undefined;
  /** Paths of the directories in the sandbox. */
  visible(directory: ProcessDirectory): Pick<ProcessDirectory, 'app' | 'egress'>;
  /** Path of the package directory in the sandbox; undefined: packages are linked into each process directory. */
  visiblePackages: string | undefined;
}

export interface TierOptions {
  programs: Programs;
  /** Directory for files of the tier; every user may enter it. */
  directory: string;
  readable: ReadableFiles;
  /** Directory of packages, read-only for the child. */
  packages: string;
  /** File of certificates of authorities that user code trusts too (PEM). */
  caFile: string | undefined;
  /** Limit of the V8 heap. */
  heapMb: number;
}

/** A tier does not work on this machine. The message contains the reason and what to do. */
export class TierUnavailable extends Error {
  override readonly name = 'TierUnavailable';
}

/** Limits of a sandbox process. */
export const CHILD_LIMITS = {
  /** Open descriptors. */
  nofile: 256,
  /** Threads; an idle process has 8. */
  nproc: 32,
  /** Bytes of one file. */
  fsize: 64 * 1024 * 1024,
  /**
   * Bytes of a core file. With 0, a kernel that pipes core dumps into a program would still start that program for each
   * crash, as root of the host; with 1 it does not (see core(5)).
   */
  core: 1,
  /**
   * Queued signals, which are memory of the kernel: 80 bytes each, by default for 0.03 % of that of the machine. Without
   * root, the platform and all sandboxes share the default. The launcher has the same limit.
   */
  sigpending: 256,
  /** Bytes and inodes of /tmp. */
  tmpBytes: 64 * 1024 * 1024,
  tmpInodes: 4096,
} as const;

const isRoot = process.getuid?.() === 0;

/**
 * The user of a child: that of the process directory if the platform is root, otherwise that of the platform (undefined).
 * @throws Error if the platform is root and the process directory has no user
 */
export function userOf({ uid }: ProcessDirectory): { uid: number; gid: number } | undefined {
  if (!isRoot) return undefined;
  if (uid === undefined) throw new Error('A process directory without a user id cannot be used by root.');
  return { uid, gid: uid };
}

/**
 * Environment of user code; reveals nothing about the host.
 * @param caFile for Node; the program of the child removes it
 */
export const childEnvironment = (
  home: string,
  temporary: string,
  caFile: string | undefined,
): Record<string, string> => ({
  HOME: home,
  PATH: '/usr/bin:/bin',
  PWD: home,
  TMPDIR: temporary,
  TZ: 'UTC',
  NODE_ENV: 'production',
  ...(caFile === undefined ? {} : { [CA_VARIABLE]: caFile }),
});

/** Flags of Node in all tiers, which limit the heap and the threads of V8 (ADR 37). */
export const nodeFlags = (heapMb: number): string[] => [
  `--max-old-space-size=${heapMb}`,
  '--max-semi-space-size=4',
  '--v8-pool-size=1',
];
