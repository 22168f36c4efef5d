import { createLru } from '@wellspring/core/lru';

/** Times between the calls of each process key, across its processes: those that were ended early are known, too. */
export interface CallGaps {
  /**
   * A call begins while its key has no other.
   * @returns the shorter one of its last two gaps in ms, so that the pause before a series of calls does not count;
   *   0 before the second call
   */
  begin(key: string): number;
  /** No call of the key is left. */
  end(key: string): void;
}

interface Entry {
  endedAt: number;
  lastGapMs: number;
}

const MAX_KEYS = 20_000;

export function createCallGaps(now: () => number = () => performance.now()): CallGaps {
  const entries = createLru<Entry>(MAX_KEYS);
  return {
    begin(key) {
      const entry = entries.get(key);
      if (!entry) return 0;
      const gapMs = now() - entry.endedAt;
      const shorterMs = Math.min(gapMs, entry.lastGapMs);
      entry.lastGapMs = gapMs;
      return shorterMs;
    },
    end(key) {
      const endedAt = now();
      const entry = entries.get(key);
      if (entry) entry.endedAt = endedAt;
      else entries.set(key, { endedAt, lastGapMs: Number.POSITIVE_INFINITY });
    },
  };
}
