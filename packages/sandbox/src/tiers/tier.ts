import type { ReadableFiles } from '../readable-files.ts';
import type { Programs } from '../runtime-files.ts';
import type { Slot } from '../slots.ts';
import type { Command } from '../spawner/messages.ts';

export type TierName = 'bubblewrap' | 'launcher' | 'none';

/** One way to isolate a child. */
export interface Tier {
  readonly name: TierName;
  /**
   * Prepares the slot for a child that speaks frames on descriptor 3. Its code is put into `slot.app` later.
   * @param options.warm see WARM
   * @returns how to start the child, and how to kill it with everything that belongs to it
   */
  command(slot: Slot, options: { warm: boolean }): Command;
  /**
   * The tier stops and continues the process that runs Node itself, when the process that it started gets SIGTSTP and
   * SIGCONT; otherwise the platform signals that process.
   */
  readonly relaysStops?: true;
  /** Why the tier ended a child by itself, from the child's exit code; undefined when it did not. */
  endedFor?(exitCode: number | null): string | undefined;
  /** Paths of the slot's directories as the child sees them. */
  visible(slot: Slot): Pick<Slot, 'app' | 'egress'>;
  /** The directory of packages as the child sees it; undefined: packages are linked into each slot. */
  visiblePackages: string | undefined;
}

export interface TierOptions {
  programs: Programs;
  /** Directory for what a tier has to prepare; every user may enter it. */
  directory: string;
  readable: ReadableFiles;
  /** Directory of packages, read-only for the child. */
  packages: string;
  /** Of the V8 heap, in MB. */
  heapMb: number;
}

/** A tier does not work on this machine. The message says why and what to do. */
export class TierUnavailable extends Error {
  override readonly name = 'TierUnavailable';
}

/** Limits of one process that the kernel enforces. */
export const CHILD_LIMITS = {
  /** Open descriptors. */
  nofile: 256,
  /** Threads: an idle process has 11. */
  nproc: 32,
  /** Bytes of one file. */
  fsize: 64 * 1024 * 1024,
  /**
   * Bytes of a core file: too few for one. With 0, a kernel that pipes core dumps into a program would still start that
   * program, as root of the host, for each process that crashes; with 1 it does not (see core(5)).
   */
  core: 1,
  /** Bytes and inodes of /tmp. */
  tmpBytes: 64 * 1024 * 1024,
  tmpInodes: 4096,
} as const;

const isRoot = process.getuid?.() === 0;

/**
 * The user as which a child is started: a platform that runs as root uses the slot's own; another one cannot change
 * users, so its children run as itself.
 * @throws Error when the platform is root and the slot has no user
 */
export function userOf({ uid }: Slot): { uid: number; gid: number } | undefined {
  if (!isRoot) return undefined;
  if (uid === undefined) throw new Error('A slot without a user id cannot be used by root.');
  return { uid, gid: uid };
}

/** What user code finds in process.env; nothing in it tells of the host. */
export const childEnvironment = (home: string, temporary: string): Record<string, string> => ({
  HOME: home,
  PATH: '/usr/bin:/bin',
  PWD: home,
  TMPDIR: temporary,
  TZ: 'UTC',
  NODE_ENV: 'production',
});

/** Flags of Node in every tier: the heap is bounded. */
export const nodeFlags = (heapMb: number): string[] => [
  `--max-old-space-size=${heapMb}`,
  '--max-semi-space-size=4',
];
