import { fstatSync } from 'node:fs';
import { Worker } from 'node:worker_threads';

/**
 * Checkpoints the write-ahead log in a separate thread. SQLite would do so within a commit, which then waits for
 * megabytes of pages to be copied and fsynced.
 */
export interface Checkpoints {
  /** Call after each commit. @param logFile descriptor of the write-ahead log */
  committed(logFile: number): void;
  /** Resolves when the running checkpoint has ended; starts no other. */
  close(): Promise<void>;
}

/** A smaller log is not checkpointed. After a complete checkpoint SQLite reuses the log from its start. */
const MIN_LOG_BYTES = 16 * 1024 * 1024;
/** Continuous writes may prevent a complete checkpoint; at this size the log is truncated. */
const MAX_LOG_BYTES = 256 * 1024 * 1024;
/** Between checkpoints: pages written several times meanwhile are copied once. */
const INTERVAL_MS = 500;

/** @param truncate checkpoints the log synchronously and empties it */
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
    // Full disk or out of memory: the next commit starts another thread.
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
      if (size > MAX_LOG_BYTES) {
        try {
          truncate();
        } catch {
          // Full disk: the commit itself is durable, and a later one tries this again.
        }
        over();
      } else if (size > MIN_LOG_BYTES) {
        running = Promise.withResolvers();
        worker ??= start();
        worker.postMessage('checkpoint');
      }
    },
    async close() {
      notBefore = Number.POSITIVE_INFINITY;
      // A process with nothing else to do would end before the checkpoint does.
      worker?.ref();
      await running?.promise;
      await worker?.terminate();
    },
  };
}
