import type { ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import type { ReadableFiles } from '../../readable-files.ts';
import type { UsageLimits } from '../jailed/watch-usage.ts';

/** The kind of jail, with what it needs of the host. */
export type JailChoice =
  | { name: 'bubblewrap'; bwrap: string }
  | {
      name: 'launcher';
      /** The native launcher. */
      launcher: string;
      /** User ids that nothing else uses, one for each program in the jail that runs at a time. */
      userIds: readonly number[];
    }
  | { name: 'none' };

/** What one process of the packager has of the jail: no two processes have a user id in common. */
export interface JailLease {
  choice: JailChoice;
  /**
   * Ends what a process of the packager that has ended leaves behind, and frees its user ids.
   * @param work directory of the process, which is removed
   * @throws Error when something is left: the user ids are not used again
   */
  end(work: string): Promise<void>;
}

/** Gives each process of the packager a lease. @throws Error when all user ids are in use */
export type JailSource = () => JailLease;

/** The gateway to the registry: its unix socket and, where a jail has no loopback of its own, its port on 127.0.0.1. */
export interface GatewayAddress {
  socket: string;
  port?: number;
}

/** What the package manager and the compiler run in: their input is hostile, and they are programs of others. */
export interface Jail {
  readonly name: JailChoice['name'];
  /** True: one process compiles one piece of code. False: it has no file system to leave anything in, and is used again. */
  readonly singleUse: boolean;
  /** Starts a program that reads JSON lines from stdin and answers on stdout. */
  spawn(program: JailProgram): Jailed;
}

export type JailProgram = 'compile' | 'install';

export interface Jailed {
  child: ChildProcessByStdio<Writable, Readable, Readable>;
  /** Paths as the program sees them. */
  view: {
    /** Its working directory, empty and writable. */
    directory: string;
    packageManager: string;
    gateway: { socket: string } | { port: number };
    /** What the directory may hold, where the jail itself does not limit it: the program looks at it. */
    limits: UsageLimits | undefined;
  };
  /** Whether it was ended because it wrote more than its working directory may hold; known after `end`. */
  isFull(): boolean;
  /** Ends the program with all that it started, and removes what it wrote. */
  end(): Promise<void>;
}

export interface JailOptions {
  /** Programs of jailed/, each bundled into one file. */
  programs: JailPrograms;
  /** Directory for work of the jail: every user may enter it, only the platform may write to it. */
  directory: string;
  gateway: GatewayAddress;
  /** The unprivileged user to start processes as; undefined: the platform's own. */
  user: { uid: number; gid: number } | undefined;
  /** Gives paths by which every user may read files. */
  readable: ReadableFiles;
}

export interface JailPrograms {
  compileNative: string;
  compileWasm: string;
  install: string;
}

/** Of one process. Kilobytes, except where said. */
export const JAIL_LIMITS = {
  /** Of everything that an installation unpacks, in bytes. */
  diskBytes: 512 * 1024 * 1024,
  compileData: 1_500_000,
  installData: 2_000_000,
  /** Processor seconds. */
  cpuSeconds: 90,
  openFiles: 4096,
  /** Files and directories that an installation unpacks: the package manager keeps each twice. */
  inodes: 300_000,
  /** Processes and threads. */
  threads: 256,
} as const;

export const JAIL_USAGE: UsageLimits = { bytes: JAIL_LIMITS.diskBytes, inodes: JAIL_LIMITS.inodes };

/** Lower than the platform and its sandboxes. */
export const JAIL_PRIORITY = 10;

/**
 * A command line that sets limits of the kernel before it executes the rest. POSIX: -f counts 512 bytes.
 * @param command absolute path and arguments
 */
export function withLimits(program: JailProgram, command: readonly string[]): [string, string[]] {
  const { cpuSeconds, diskBytes, compileData, installData, openFiles } = JAIL_LIMITS;
  const limits = [
    // One byte: see CHILD_LIMITS.core. A hard limit that is lower stays.
    '{ prlimit --core=1 --pid $$ || ulimit -c 0; } 2>/dev/null',
    `ulimit -t ${cpuSeconds}`,
    `ulimit -f ${diskBytes / 512}`,
    `ulimit -d ${program === 'compile' ? compileData : installData}`,
    `ulimit -n ${openFiles}`,
    // The compiler in WebAssembly recurses on the stack; a hard limit that is lower stays.
    '{ ulimit -s 65536 || true; } 2>/dev/null',
    'exec "$@"',
  ];
  return ['/bin/sh', ['-c', limits.join(' && '), 'sh', ...command]];
}
