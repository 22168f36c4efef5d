import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';

/** A program with all that it forks. */
export interface ProcessGroup {
  /** Resolves when all of it has ended, by itself or killed. */
  readonly ended: Promise<void>;
  readonly isRunning: boolean;
  /** SIGKILL to all of the group. Resolves when they are gone. */
  kill(): Promise<void>;
  /** What it wrote so far, with what it wrote in the same directory before. */
  output(): Promise<string>;
}

/**
 * Runs the program, and beside it one that waits for the end of the pipe from this process: when this process dies,
 * however it does, the whole group is killed. Descriptor 3 stays open as long as one of the group lives.
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
 * Starts a program in a process group of its own, which ends with this process.
 * @param directory where it runs; its output is in the file `output` there
 * @param env all of it: nothing is inherited but PATH
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
  return {
    ended,
    get isRunning() {
      return isRunning;
    },
    async kill() {
      if (isRunning) process.kill(-child.pid!, 'SIGKILL');
      await ended;
    },
    output: () => readFile(path, 'utf8').catch(() => ''),
  };
}
