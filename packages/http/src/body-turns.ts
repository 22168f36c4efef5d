import { createFairPermits } from '@wellspring/core/fair-permits';

/** Reading of large bodies, which takes tens of milliseconds each: at most two owners at a time, who rest after each. */
export interface BodyTurns {
  /** @throws the reason of the signal while the owner waits */
  run<T>(owner: string, bytes: number, read: () => Promise<T>, signal?: AbortSignal): Promise<T>;
}

/** Smaller ones are read at once. */
const LARGE_BODY = 64 * 1024;
/** An owner rests for this many times the time that its body took: it gets a quarter of the main thread. */
const REST = 3;

export function createBodyTurns({
  now = () => performance.now(),
  after = (ms: number, then: () => void) => void setTimeout(then, ms).unref(),
} = {}): BodyTurns {
  const permits = createFairPermits({ total: 2, maxPerOwner: () => 1 });
  return {
    async run(owner, bytes, read, signal) {
      if (bytes <= LARGE_BODY) return read();
      const release = await permits.acquire(owner, signal);
      const begun = now();
      try {
        return await read();
      } finally {
        after(REST * (now() - begun), release);
      }
    },
  };
}
