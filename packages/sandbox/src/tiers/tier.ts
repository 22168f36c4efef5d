import type { ChildProcess } from 'node:child_process';
import type { Slot } from '../slots.ts';

/** One way to keep a child in. */
export interface Tier {
  readonly name: 'bubblewrap' | 'launcher' | 'none';
  /**
   * Starts a child that speaks frames on stdio[3]. Its code is put into `slot.app` later.
   * Descriptors: 0 nothing, 1 and 2 pipes, 3 the frames.
   */
  spawn(slot: Slot): ChildProcess;
  /** Paths of the slot's directories as the child sees them. */
  visible(slot: Slot): Pick<Slot, 'app' | 'egress'>;
  /** The same of the directory of packages. */
  visiblePackages: string;
}

export interface TierOptions {
  /** The child's program. */
  program: string;
  /** Directory for what a tier has to prepare. */
  directory: string;
  codeAllowNetworks: readonly string[];
  /** Directory of packages, read-only for the child. */
  packages: string;
  /** Of the V8 heap, in MB. */
  heapMb: number;
  /** The unprivileged user to start processes as; undefined: the platform's own. */
  user: { uid: number; gid: number } | undefined;
}

/** Of `nobody` on every common system. */
export const NOBODY = 65534;

/** What user code finds in process.env; nothing in it tells of the host. */
export const childEnvironment = (home: string, temporary: string): Record<string, string> => ({
  HOME: home,
  PATH: '/usr/bin:/bin',
  PWD: home,
  TMPDIR: temporary,
  TZ: 'UTC',
  NODE_ENV: 'production',
});

/** Flags of Node: no processes, workers, addons, nor SQLite, which opens files that are not allowed; files as far as the tier says; the heap is bounded. */
export const nodeFlags = (heapMb: number): string[] => [
  '--permission',
  '--allow-net',
  `--max-old-space-size=${heapMb}`,
  '--max-semi-space-size=4',
  '--disable-warning=SecurityWarning',
  '--no-addons',
  '--no-experimental-sqlite',
];
