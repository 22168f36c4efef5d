import { createFairPermits } from './fair-permits.ts';

/** Work on large texts, each of which takes tens of milliseconds or more. An owner does one at a time and then rests. */
export interface LargeTurns {
  /**
   * Starts the work at once if it is small, otherwise when it is the owner's turn.
   * @throws the reason of the signal while the owner waits
   */
  run<T>(owner: string, bytes: number, work: () => Promise<T>, signal?: AbortSignal): Promise<T>;
}

export interface LargeTurnsOptions {
  /** Owners that work or rest at the same time; default: any number. */
  owners?: number;
  /** Work on at most this many bytes is small. */
  smallBytes: number;
  now?: () => number;
  after?: (ms: number, then: () => void) => void;
}

/** An owner rests for this many times the time of its work: it gets a quarter of what the work takes. */
const REST = 3;
/** Work that waited for something else, such as another machine, says little about its cost. */
const MAX_REST_MS = 10_000;
const ANY_NUMBER = 1_000_000;

export function createLargeTurns({
  owners = ANY_NUMBER,
  smallBytes,
  now = () => performance.now(),
  after = (ms, then) => void setTimeout(then, ms).unref(),
}: LargeTurnsOptions): LargeTurns {
  const permits = createFairPermits({ total: owners, maxPerOwner: () => 1 });
  return {
    async run(owner, bytes, work, signal) {
      if (bytes <= smallBytes) return work();
      const release = await permits.acquire(owner, signal);
      const begun = now();
      try {
        return await work();
      } finally {
        after(Math.min(REST * (now() - begun), MAX_REST_MS), release);
      }
    },
  };
}
