import { availableParallelism } from 'node:os';
import { backoff } from '@wellspring/core/backoff';
import type { Clock } from '@wellspring/core/clock';
import { createFairPermits } from '@wellspring/core/fair-permits';
import type { Log } from '@wellspring/core/log';
import type { Child } from './child-process.ts';
import type { Slot } from './slots.ts';

/** A process that nobody has used yet, in a slot of its own. */
export interface Fresh {
  child: Child;
  slot: Slot;
}

/** Processes started ahead of their use. They know nothing of any tenant; each is used for one source only. */
export interface Pool {
  /**
   * A process that can take calls: one from the pool, or a new one when it is empty. Those that are asked for at the same
   * time are started by fair shares of the owners, so that one of them with many sources does not hold up the others.
   * @throws Error when the pool was closed meanwhile
   */
  take(ownerId: string): Promise<Fresh>;
  readonly size: number;
  /** Starts no more; those that wait are the caller's to end. */
  close(): void;
}

const MAX_STARTING = 2;
/**
 * Processes that are asked for and not ready. An owner alone has half of them: as many as there are processors, each of
 * which one start keeps busy for tens of milliseconds.
 */
const MAX_TAKING = 2 * availableParallelism();
/** A process that is not ready by then never will be. */
const MAX_START_MS = 30_000;
/** The start of a process blocks for milliseconds: the first call of the one that was taken comes first. */
const REFILL_DELAY_MS = 30;
/** Between starts ahead of their use, while they fail. */
const BACKOFF = { baseMs: 100, maxMs: 30_000 };

export interface PoolOptions {
  /** Starts a process; `warm`: ahead of its use. */
  spawn(warm: boolean): Promise<Fresh>;
  /** Processes to keep ready. */
  target: number;
  clock: Clock;
  log: Log;
  /** Processes that are asked for and not ready; default: twice the number of processors. */
  maxTaking?: number;
}

export function createPool({ spawn, target, clock, log, maxTaking = MAX_TAKING }: PoolOptions): Pool {
  const waiting: Fresh[] = [];
  const permits = createFairPermits({ total: maxTaking });
  const closing = new AbortController();
  let starting = 0;
  let closed = false;
  /** Starts ahead of their use that failed since the last process became ready. */
  let failures = 0;
  let backingOff = false;

  /** @throws Error when the process ended before it was ready */
  async function start(warm: boolean): Promise<Fresh> {
    const fresh = await spawn(warm);
    const { child } = fresh;
    const late = setTimeout(() => child.kill('crash', 'It was not ready in time.'), MAX_START_MS);
    await child.ready.finally(() => clearTimeout(late));
    if (failures > 0) log.info({ failures }, 'sandbox.start_succeeded');
    failures = 0;
    return fresh;
  }

  /** A streak of failures is logged once. */
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
      const fresh = await start(true);
      if (!closed) waiting.push(fresh);
    } catch (error) {
      // Two that were started together fail together: one failure.
      if (!closed && !backingOff) await backOff(error);
    } finally {
      starting -= 1;
      refill();
    }
  }

  /** Keeps the pool full. While starts fail, one at a time is tried. */
  function refill(): void {
    // Those that are asked for come first; the last of them calls this again.
    while (
      !closed &&
      !backingOff &&
      permits.stats().held === 0 &&
      starting < (failures > 0 ? 1 : MAX_STARTING) &&
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
        for (let fresh = waiting.shift(); fresh; fresh = waiting.shift()) {
          if (fresh.child.usable) return fresh;
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
      closing.abort(new Error('the sandbox is closed'));
      clearTimeout(refilling);
    },
  };
}
