import { backoff } from '@wellspring/core/backoff';
import type { Clock } from '@wellspring/core/clock';
import { createFairPermits } from '@wellspring/core/fair-permits';
import type { Log } from '@wellspring/core/log';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Child } from './child.ts';
import type { ProcessDirectory } from './process-directories.ts';

/** A child without code, and its process directory. */
export interface UnusedProcess {
  child: Child;
  directory: ProcessDirectory;
}

/** Processes started in advance. They contain no data of a tenant; each is used for one source only. */
export interface Pool {
  /**
   * A ready process from the pool, or a new one if the pool is empty. Starts are shared fairly between owners, so
   * that an owner with many sources does not delay others.
   * @throws Unavailable if no process can be started, or the pool is closed
   */
  take(ownerId: string): Promise<UnusedProcess>;
  readonly size: number;
  /** Starts no more processes. The caller ends those in the pool. */
  close(): void;
}

/** A process without code does not start: neither the code nor the call is at fault. */
const startFailed = (cause: unknown) =>
  new Unavailable(`No sandbox process can be started: ${cause instanceof Error ? cause.message : cause}`, {
    cause,
  });
/** The process ends: calls are not at fault, and are made elsewhere. */
export const sandboxClosed = () => new Unavailable('The sandbox is closed.');
/** Maximum of concurrent starts in advance. */
const MAX_STARTING = 2;
/** A process that is not ready by then is killed. */
const MAX_START_MS = 30_000;
/**
 * A start keeps a processor busy for 100 ms. The first call of the taken process has priority: to load a package such as
 * axios takes it as long.
 */
const REFILL_DELAY_MS = 250;
/** Between failed starts in advance. */
const BACKOFF = { baseMs: 100, maxMs: 30_000 };

export interface PoolOptions {
  /** @param preload see PRELOAD */
  start(preload: boolean): Promise<UnusedProcess>;
  /** Number of processes to keep ready. */
  target: number;
  clock: Clock;
  log: Log;
  /** True: processes are started without preloading, which costs as much processor time as the start itself. */
  isOverloaded?: () => boolean;
  /**
   * Number of processors for the processes. A start keeps one busy for tens of milliseconds, so at most twice as many
   * starts for `take` run at a time.
   */
  processors: number;
  /** Of these starts, the maximum for one owner; default: all. */
  maxPerOwner?: () => number;
}

export function createPool({
  start: startProcess,
  target,
  clock,
  log,
  isOverloaded = () => false,
  processors,
  maxPerOwner,
}: PoolOptions): Pool {
  const maxTaking = 2 * Math.ceil(processors);
  const maxStarting = Math.min(MAX_STARTING, Math.ceil(processors));
  const waiting: UnusedProcess[] = [];
  const permits = createFairPermits({ total: maxTaking, maxPerOwner: maxPerOwner ?? (() => maxTaking) });
  const closing = new AbortController();
  let starting = 0;
  let closed = false;
  /** Failed starts in advance since the last process became ready. */
  let failures = 0;
  let backingOff = false;

  async function startReady(preload: boolean): Promise<UnusedProcess> {
    const unused = await startProcess(preload);
    const { child } = unused;
    const late = setTimeout(() => child.kill('crash', 'The process was not ready in time.'), MAX_START_MS);
    await child.ready.finally(() => clearTimeout(late));
    return unused;
  }

  /** @throws Unavailable when it cannot be started, or ends before it is ready */
  async function start(preload: boolean): Promise<UnusedProcess> {
    const unused = await startReady(preload).catch((error: unknown) => {
      throw startFailed(error);
    });
    if (failures > 0) log.info({ failures }, 'sandbox.start_succeeded');
    failures = 0;
    return unused;
  }

  /** Logs a series of failures once. */
  async function backOff(error: unknown): Promise<void> {
    failures += 1;
    if (failures === 1) log.error({ error: String(error) }, 'sandbox.start_failed');
    backingOff = true;
    await clock.sleep(backoff(failures, BACKOFF), closing.signal);
    backingOff = false;
  }

  async function startAhead(): Promise<void> {
    starting += 1;
    try {
      const unused = await start(!isOverloaded());
      if (!closed) waiting.push(unused);
    } catch (error) {
      // Concurrent starts that fail together count as one failure.
      if (!closed && !backingOff) await backOff(error);
    } finally {
      starting -= 1;
      refill();
    }
  }

  /** Keeps the pool full. After a failure, starts are tried one at a time. */
  function refill(): void {
    // Starts for `take` have priority; the last of them calls `refill`.
    while (
      !closed &&
      !backingOff &&
      permits.stats().held === 0 &&
      starting < (failures > 0 ? 1 : maxStarting) &&
      waiting.length + starting < target
    ) {
      void startAhead();
    }
  }

  let refilling: NodeJS.Timeout | undefined;
  function refillLater(): void {
    refilling ??= setTimeout(() => {
      refilling = undefined;
      refill();
    }, REFILL_DELAY_MS);
    refilling.unref();
  }

  refill();
  return {
    async take(ownerId) {
      const release = await permits.acquire(ownerId, closing.signal);
      try {
        for (let unused = waiting.shift(); unused; unused = waiting.shift()) {
          if (unused.child.usable) return unused;
        }
        return await start(false);
      } finally {
        release();
        refillLater();
      }
    },
    get size() {
      return waiting.length;
    },
    close() {
      closed = true;
      closing.abort(sandboxClosed());
      clearTimeout(refilling);
    },
  };
}
