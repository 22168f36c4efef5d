import { fstatSync } from 'node:fs';
import { Worker } from 'node:worker_threads';

/**
 * Checkpoints the write-ahead log in a separate thread. SQLite would do so within a commit, which then waits for
 * megabytes of pages to be copied and fsynced.
 *
 * The log is reused from its start only after a checkpoint that includes its last commit. Under load another commit
 * always follows, so passes are repeated while commits go on, and commits wait for the last pass, which has little left
 * to copy.
 */
export interface Checkpoints {
  /** Resolves when the running checkpoint has ended; undefined: none is running. */
  readonly running: Promise<void> | undefined;
  /** Call after each commit. @param logFile descriptor of the write-ahead log */
  committed(logFile: number): void;
  /** Resolves when the running checkpoint has ended; starts no other. */
  close(): Promise<void>;
}

/** A smaller log is not checkpointed. */
const MIN_LOG_BYTES = 16 * 1024 * 1024;
/** A larger log is also cut, so that its file does not keep the size of an exceptional load. */
const MAX_LOG_BYTES = 256 * 1024 * 1024;
/** Between checkpoints: pages written several times meanwhile are copied once. */
const INTERVAL_MS = 500;
/** After a pass this short, the next one is the last. */
const SHORT_PASS_MS = 10;
const MAX_PASSES = 5;

/**
 * @param path of the database file
 * @param hold called with true: no commit may start until it is called with false
 */
export function createCheckpoints(path: string, hold: (held: boolean) => void): Checkpoints {
  let worker: Worker | undefined;
  let running: Promise<void> | undefined;
  /** Called when the thread has made a pass, or has ended. */
  let passEnded: ((made: boolean) => void) | undefined;
  let notBefore = 0;

  function start(): Worker {
    const started = new Worker(new URL('./checkpoint-worker.ts', import.meta.url), {
      workerData: path,
      env: {},
      argv: [],
      execArgv: [],
    });
    started.on('message', () => {
      started.unref();
      passEnded?.(true);
    });
    // Full disk or out of memory: a later checkpoint starts another thread.
    started.on('error', () => {});
    started.on('exit', () => {
      worker = undefined;
      passEnded?.(false);
    });
    started.unref();
    return started;
  }

  /** @returns whether it was made */
  function pass(mode: 'PASSIVE' | 'TRUNCATE'): Promise<boolean> {
    return new Promise((resolve) => {
      passEnded = resolve;
      worker ??= start();
      // A process that only waits for held commits would end.
      worker.ref();
      worker.postMessage(mode);
    });
  }

  async function checkpoint(isLarge: boolean): Promise<void> {
    for (let passes = 1; passes < MAX_PASSES; passes++) {
      const begun = performance.now();
      if (!(await pass('PASSIVE'))) return;
      if (performance.now() - begun < SHORT_PASS_MS) break;
    }
    hold(true);
    try {
      await pass(isLarge ? 'TRUNCATE' : 'PASSIVE');
    } finally {
      hold(false);
    }
  }

  return {
    get running() {
      return running;
    },
    committed(logFile) {
      if (running || performance.now() < notBefore) return;
      const { size } = fstatSync(logFile);
      if (size <= MIN_LOG_BYTES) return;
      running = checkpoint(size > MAX_LOG_BYTES)
        // No memory for a thread: a later checkpoint tries again.
        .catch(() => {})
        .finally(() => {
          notBefore = Math.max(notBefore, performance.now() + INTERVAL_MS);
          running = undefined;
        });
    },
    async close() {
      notBefore = Number.POSITIVE_INFINITY;
      await running;
      worker?.ref();
      await worker?.terminate();
    },
  };
}
