import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';

/** A program and its descendants. */
export interface ProcessGroup {
  /** Resolves when the whole group has exited. */
  readonly ended: Promise<void>;
  readonly isRunning: boolean;
  /** Sends a signal to the group, such as SIGSTOP. */
  signal(signal: NodeJS.Signals): void;
  /** Sends SIGKILL to the group and waits for its exit. */
  kill(): Promise<void>;
  /** Output so far, including that of earlier starts in the same directory. */
  output(): Promise<string>;
}

/**
 * Runs the program and a watcher that kills the whole group when the pipe from this process closes. Descriptor 3 stays
 * open as long as one process of the group lives.
 */
const TIED = `
exec 4<&0
"$@" </dev/null 4<&- &
program=$!
( read -r _ <&4; kill -9 -$$ ) &
wait "$program"
status=$?
kill -9 -$$
exit "$status"
`;

/**
 * Starts a program in a new process group that never outlives this process.
 * @param directory working directory; its output goes to the file `output` there
 * @param env complete, except for the inherited PATH
 */
export function startGroup(
  command: readonly string[],
  { directory, env = {} }: { directory: string; env?: Record<string, string> },
): ProcessGroup {
  const path = join(directory, 'output');
  const file = openSync(path, 'a');
  const child = spawn('/bin/sh', ['-c', TIED, 'sh', ...command], {
    cwd: directory,
    env: { PATH: process.env.PATH, ...env },
    detached: true,
    stdio: ['pipe', file, file, 'pipe'],
  });
  closeSync(file);
  (child.stdio[3] as Readable).resume();
  let isRunning = true;
  const ended = new Promise<void>((resolve) => {
    child.once('close', () => {
      isRunning = false;
      resolve();
    });
  });
  const signal = (name: NodeJS.Signals) => {
    if (isRunning) process.kill(-child.pid!, name);
  };
  return {
    ended,
    get isRunning() {
      return isRunning;
    },
    signal,
    async kill() {
      signal('SIGKILL');
      await ended;
    },
    output: () => readFile(path, 'utf8').catch(() => ''),
  };
}
