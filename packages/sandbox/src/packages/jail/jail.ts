import type { ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import type { ReadableFiles } from '../../readable-files.ts';
import type { UsageLimits } from '../jailed/watch-usage.ts';

/** The kind of jail, and its requirements. */
export type JailChoice =
  | { name: 'bubblewrap'; bwrap: string }
  | {
      name: 'launcher';
      /** The native launcher. */
      launcher: string;
      /** User ids for exclusive use, one for each concurrent program in the jail. */
      userIds: readonly number[];
    }
  | { name: 'none' };

/** The jail of one packager process. No two processes share a user id. */
export interface JailLease {
  choice: JailChoice;
  /**
   * Ends the leftover processes of a packager process that has ended, and frees its user ids.
   * @param work directory of the process, which is removed
   * @throws Error if something remains: the user ids are not reused
   */
  end(work: string): Promise<void>;
}

/** Creates a lease for a packager process. @throws Error if all user ids are in use */
export type JailSource = () => JailLease;

/** The gateway to the registry: its unix socket and, for jails without private loopback, its port on 127.0.0.1. */
export interface GatewayAddress {
  socket: string;
  port?: number;
}

/** Sandbox of the package manager and the compiler: third-party programs with hostile input. */
export interface Jail {
  readonly name: JailChoice['name'];
  /** False: a process of the compiler serves one owner. True: it has no file system, and serves all. */
  readonly sharesCompilers: boolean;
  /** Starts a program that reads JSON lines from stdin and answers on stdout. */
  spawn(program: JailProgram): Jailed;
}

export type JailProgram = 'compile' | 'install';

export interface Jailed {
  child: ChildProcessByStdio<Writable, Readable, Readable>;
  /** The jail as the program sees it. */
  view: {
    /** Empty, writable working directory. */
    directory: string;
    packageManager: string;
    gateway: { socket: string } | { port: number };
    /** Limits of the directory that the program has to check, since the jail does not. */
    limits: UsageLimits | undefined;
  };
  /** Whether it was killed because its working directory exceeded its limits; known after `end`. */
  isFull(): boolean;
  /** Kills the program and its child processes, and removes its files. */
  end(): Promise<void>;
}

export interface JailOptions {
  /** Each bundled into one file. */
  programs: JailPrograms;
  /** Directory that every user may enter and only the platform may write to. */
  directory: string;
  gateway: GatewayAddress;
  /** The unprivileged user to start processes as; undefined for the platform's own. */
  user: { uid: number; gid: number } | undefined;
  readable: ReadableFiles;
}

export interface JailPrograms {
  compileNative: string;
  compileWasm: string;
  install: string;
  /** Outside of the jail: the program of a packager process. */
  packager: string;
}

/** Limits of one process; kilobytes unless noted. */
export const JAIL_LIMITS = {
  /** Unpacked files of an installation, in bytes. */
  diskBytes: 512 * 1024 * 1024,
  compileData: 1_500_000,
  installData: 2_000_000,
  /** Processor seconds. */
  cpuSeconds: 90,
  openFiles: 4096,
  /** Files and directories of an installation, of which the package manager keeps two copies. */
  inodes: 300_000,
  /** Processes and threads. */
  threads: 256,
} as const;

export const JAIL_USAGE: UsageLimits = { bytes: JAIL_LIMITS.diskBytes, inodes: JAIL_LIMITS.inodes };

/**
 * A command line that sets kernel limits and executes the command. POSIX: the unit of -f is 512 bytes.
 * @param command absolute path and arguments
 */
export function withLimits(program: JailProgram, command: readonly string[]): [string, string[]] {
  const { cpuSeconds, diskBytes, compileData, installData, openFiles } = JAIL_LIMITS;
  const limits = [
    // One byte: see CHILD_LIMITS.core. A lower hard limit stays.
    '{ prlimit --core=1 --pid $$ || ulimit -c 0; } 2>/dev/null',
    `ulimit -t ${cpuSeconds}`,
    `ulimit -f ${diskBytes / 512}`,
    `ulimit -d ${program === 'compile' ? compileData : installData}`,
    `ulimit -n ${openFiles}`,
    // The compiler in WebAssembly needs a large stack; a lower hard limit stays.
    '{ ulimit -s 65536 || true; } 2>/dev/null',
    'exec "$@"',
  ];
  return ['/bin/sh', ['-c', limits.join(' && '), 'sh', ...command]];
}
