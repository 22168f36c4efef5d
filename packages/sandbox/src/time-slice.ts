import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Log } from '@wellspring/core/log';

const PROGRAM = fileURLToPath(new URL('time-slice-main.ts', import.meta.url));
const TIMEOUT_MS = 10_000;

/**
 * Gives the threads of a process a short time slice, so that the kernel runs them at once when they become ready while
 * user code occupies a processor. Threads and processes that they start later have the normal slice. See ADR 38.
 * @returns when it is done, or was refused, which is logged
 */
export function shortenTimeSlices(pid: number, log: Log): Promise<void> {
  if (process.platform !== 'linux') return Promise.resolve();
  return new Promise((resolve) => {
    // A separate process, since the FFI of Node.js is experimental and its mistakes are fatal.
    const args = ['--disable-warning=ExperimentalWarning', PROGRAM, String(pid)];
    execFile(process.execPath, args, { env: {}, timeout: TIMEOUT_MS }, (error, _stdout, stderr) => {
      if (error) log.warn({ message: stderr.trim() || error.message }, 'process.time_slices_not_set');
      resolve();
    });
  });
}
