import { availableParallelism } from 'node:os';
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

/**
 * @param spawn starts a process; `warm`: ahead of its use
 * @param target processes to keep ready
 */
export function createPool(
  spawn: (warm: boolean) => Fresh,
  target: number,
  log: Log,
  maxTaking: number = MAX_TAKING,
): Pool {
  const waiting: Fresh[] = [];
  const permits = createFairPermits({ total: maxTaking });
  const closing = new AbortController();
  let starting = 0;
  let closed = false;

  function start(warm: boolean): Fresh {
    const fresh = spawn(warm);
    const { child } = fresh;
    const late = setTimeout(() => child.kill('crash', 'It was not ready in time.'), MAX_START_MS);
    child.ready.catch(() => {}).finally(() => clearTimeout(late));
    return fresh;
  }

  /** Keeps the pool full; failures are tried again when the next one is taken. */
  function refill(): void {
    // Those that are asked for come first; the last of them calls this again.
    while (
      !closed &&
      permits.stats().held === 0 &&
      starting < MAX_STARTING &&
      waiting.length + starting < target
    ) {
      starting += 1;
      const fresh = start(true);
      fresh.child.ready
        .then(() => {
          if (!closed) waiting.push(fresh);
        })
        .catch((error: unknown) => closed || log.error({ error: String(error) }, 'sandbox.start_failed'))
        .finally(() => {
          starting -= 1;
          if (waiting.length > 0 || starting > 0) refill();
        });
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
        const fresh = start(false);
        await fresh.child.ready;
        return fresh;
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
