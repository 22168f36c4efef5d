import { fstatSync } from 'node:fs';
import { Worker } from 'node:worker_threads';

/**
 * Brings the write-ahead log into the database file in a thread of its own. SQLite would do so within a commit: pages
 * of megabytes would be copied and fsynced while everybody waits.
 */
export interface Checkpoints {
  /** Call after each commit. @param logFile descriptor of the write-ahead log */
  committed(logFile: number): void;
  /** Resolves when the one under way has ended; none begins after that. */
  close(): Promise<void>;
}

/** A smaller log is left alone. Once all of it is in the database file, SQLite writes from its front again. */
const MIN_LOG_BYTES = 16 * 1024 * 1024;
/** Writes that never pause may keep the log from ever being in the database file as a whole: it is cut then. */
const MAX_LOG_BYTES = 256 * 1024 * 1024;
/** Pages that are written several times within this time are copied once. */
const INTERVAL_MS = 500;

/** @param truncate brings the log into the database file at once, and empties it */
export function createCheckpoints(path: string, truncate: () => void): Checkpoints {
  let worker: Worker | undefined;
  let running: PromiseWithResolvers<void> | undefined;
  let notBefore = 0;

  function over(): void {
    notBefore = Math.max(notBefore, performance.now() + INTERVAL_MS);
    running?.resolve();
    running = undefined;
  }

  function start(): Worker {
    const started = new Worker(new URL('./checkpoint-worker.ts', import.meta.url), {
      workerData: path,
      env: {},
      argv: [],
      execArgv: [],
    });
    started.on('message', over);
    // Of a full disk or too little memory: another thread tries anew, and meanwhile the log grows.
    started.on('error', () => {});
    started.on('exit', () => {
      worker = undefined;
      over();
    });
    started.unref();
    return started;
  }

  return {
    committed(logFile) {
      if (running || performance.now() < notBefore) return;
      const { size } = fstatSync(logFile);
      if (size > MAX_LOG_BYTES) truncate();
      else if (size > MIN_LOG_BYTES) {
        running = Promise.withResolvers();
        worker ??= start();
        worker.postMessage('checkpoint');
      }
    },
    async close() {
      notBefore = Number.POSITIVE_INFINITY;
      await running?.promise;
      await worker?.terminate();
    },
  };
}
