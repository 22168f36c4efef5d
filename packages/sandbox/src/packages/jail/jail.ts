import type { ChildProcessByStdio } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';

/** What the package manager and the compiler run in: their input is hostile, and they are programs of others. */
export interface Jail {
  readonly name: 'bubblewrap' | 'none';
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
    gatewaySocket: string;
  };
  /** Ends the program with all that it started, and removes what it wrote. */
  end(): Promise<void>;
}

export interface JailOptions {
  /** Programs of jailed/, each bundled into one file. */
  programs: JailPrograms;
  /** Directory for work of the jail: every user may enter it, only the platform may write to it. */
  directory: string;
  gatewaySocket: string;
  /** The unprivileged user to start processes as; undefined: the platform's own. */
  user: { uid: number; gid: number } | undefined;
  /** Gives a path by which every user may read this file. */
  readable(path: string): string;
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
} as const;

/** Lower than the platform and its sandboxes. */
export const JAIL_PRIORITY = 10;

/**
 * A command line that sets limits of the kernel before it executes the rest. POSIX: -f counts 512 bytes.
 * @param command absolute path and arguments
 */
export function withLimits(program: JailProgram, command: readonly string[]): [string, string[]] {
  const { cpuSeconds, diskBytes, compileData, installData, openFiles } = JAIL_LIMITS;
  const limits = [
    'ulimit -c 0',
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
