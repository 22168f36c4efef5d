import type { ByteBudget } from '@wellspring/core/byte-budget';
import { createFairPermits } from '@wellspring/core/fair-permits';
import type { Room } from '@wellspring/sandbox/port';
import { type Cost, msOf, type OwnerCosts } from './owner-costs.ts';

/**
 * Memory and main-thread time for the output of one run, until its commit. Its owner pays for output, and output gets its
 * memory, before it is read, in growing steps: meanwhile the code waits in its write.
 */
export interface RunRoom extends Room, Disposable {
  /** Time for which the code had to wait, in ms. */
  readonly waitedMs: number;
  /** Pays for data that the code is given, since the main thread encodes it. */
  give(bytes: number): void;
  /** Waits while the owner is over its share. */
  settled(signal: AbortSignal): Promise<void>;
  /** Records a cost of the run; what was paid in advance counts. */
  charge(cost: Cost): void;
  /** The output is committed, or given up. Further calls have no effect. */
  release(): void;
}

export type OpenRunRoom = (ownerId: string) => RunRoom;

/** Output of a run that takes no memory of the budget, so that most runs cost nothing here. */
const FREE_BYTES = 16 * 1024;
/** Memory of an event or a line besides its text. In time, it is about the cost of an event. */
const FRAME_BYTES = 768;
const GIVEN_MEGABYTE_MS = 12;
/**
 * Runs that may exceed the budget at a time, one of an owner: without them, runs that hold all of it would wait for each
 * other. Each may hold what one run may emit and log.
 */
const MAX_EXEMPT = 2;

export function createRunRooms(
  memory: ByteBudget,
  costs: Pick<OwnerCosts, 'pay' | 'isSettled' | 'settled'>,
): OpenRunRoom {
  const exemptions = createFairPermits({ total: MAX_EXEMPT });

  return (ownerId) => {
    const releases: (() => void)[] = [];
    let arrived = 0;
    let granted = FREE_BYTES;
    let paidMs = 0;
    let waitedMs = 0;
    /** `performance.now()` at which the current wait began. */
    let waitsSince: number | undefined;
    let isExempt = false;
    let isReleased = false;
    let growing: Promise<void> | undefined;
    let stopGrowing: AbortController | undefined;

    function hold(release: () => void): void {
      if (isReleased) release();
      else releases.push(release);
    }

    function pay(bytes: number): void {
      const ms = msOf({ bytes });
      paidMs += ms;
      costs.pay(ownerId, ms);
    }

    /** @returns whether there is memory at once */
    function tryTake(bytes: number): boolean {
      const release = isExempt ? () => {} : memory.tryTake(bytes, ownerId);
      if (!release) return false;
      hold(release);
      pay(bytes);
      granted += bytes;
      return true;
    }

    /** Waits for memory, or for an exemption. */
    async function take(bytes: number, stop: AbortSignal): Promise<void> {
      const enough = new AbortController();
      const signal = AbortSignal.any([stop, enough.signal]);
      const waiting = [
        memory.take(bytes, ownerId, signal).then(hold),
        exemptions.acquire(ownerId, signal).then((release) => {
          isExempt = true;
          hold(release);
        }),
      ];
      await Promise.race(waiting).catch(() => {});
      enough.abort();
      // Both may have been granted.
      await Promise.allSettled(waiting);
    }

    async function grow(bytes: number): Promise<void> {
      waitsSince = performance.now();
      stopGrowing = new AbortController();
      const { signal } = stopGrowing;
      // `settled` may resolve for several runs at once: the first one pays, and the others wait again.
      while (!isReleased && !costs.isSettled(ownerId, paidMs))
        await costs.settled(ownerId, { paidMs, signal });
      if (!isReleased && !tryTake(bytes)) {
        pay(bytes);
        await take(bytes, signal);
        granted += bytes;
      }
      waitedMs += performance.now() - waitsSince;
      waitsSince = undefined;
    }

    function release(): void {
      if (isReleased) return;
      isReleased = true;
      stopGrowing?.abort();
      for (const giveBack of releases.splice(0)) giveBack();
      if (paidMs > 0) costs.pay(ownerId, -paidMs);
    }

    return {
      get waitedMs() {
        return waitedMs + (waitsSince === undefined ? 0 : performance.now() - waitsSince);
      },
      add(bytes) {
        arrived += bytes;
      },
      keep() {
        arrived += FRAME_BYTES;
      },
      make(bytes) {
        const missing = arrived + bytes - granted;
        if (missing <= 0 || isReleased) return undefined;
        if (growing) return growing;
        const least = Math.max(missing, FREE_BYTES);
        // Doubles if possible, so that a run that emits much asks seldom.
        const isGranted =
          costs.isSettled(ownerId, paidMs) && (tryTake(Math.max(missing, granted)) || tryTake(least));
        if (isGranted) return undefined;
        growing = grow(least).finally(() => {
          growing = undefined;
        });
        return growing;
      },
      give(bytes) {
        if (bytes > FREE_BYTES) costs.pay(ownerId, (bytes / 1024 / 1024) * GIVEN_MEGABYTE_MS);
      },
      async settled(signal) {
        if (costs.isSettled(ownerId, paidMs)) return;
        const since = performance.now();
        await costs.settled(ownerId, { paidMs, signal });
        waitedMs += performance.now() - since;
      },
      charge(cost) {
        const ms = msOf(cost);
        const inAdvance = Math.min(paidMs, ms);
        paidMs -= inAdvance;
        costs.pay(ownerId, ms - inAdvance);
      },
      release,
      [Symbol.dispose]: release,
    };
  };
}
