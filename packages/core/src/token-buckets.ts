import type { Clock } from './clock.ts';

/** A bucket of tokens for each key: it is full with twice `rate`, and gets `rate` tokens a second. */
export interface TokenBuckets {
  /** Takes a token; a key is always used with the same rate. Gives 0, or the seconds until there is a token. Never rejects. */
  take(key: string, rate: number): number | Promise<number>;
}

interface Bucket {
  rate: number;
  tokens: number;
  /** Epoch ms. */
  at: number;
}

/** Full buckets are dropped once there are more than this. */
const KEPT = 10_000;

/** Those of one process. */
export function createTokenBuckets(clock: Clock): TokenBuckets {
  const buckets = new Map<string, Bucket>();

  /** What is in it now. A clock that was put back adds nothing. */
  const tokensOf = ({ rate, tokens, at }: Bucket, now: number) =>
    Math.min(2 * rate, tokens + (Math.max(0, now - at) / 1000) * rate);

  function dropFull(now: number): void {
    for (const [key, bucket] of buckets) {
      if (tokensOf(bucket, now) >= 2 * bucket.rate) buckets.delete(key);
    }
    // All of them are in use: the oldest go, whose users then start with a full one.
    for (const key of buckets.keys()) {
      if (buckets.size <= KEPT) break;
      buckets.delete(key);
    }
  }

  return {
    take(key, rate) {
      const now = clock.now();
      const bucket = buckets.get(key) ?? { rate, tokens: 2 * rate, at: now };
      const tokens = tokensOf(bucket, now);
      const taken = tokens >= 1;
      buckets.set(key, { rate, tokens: taken ? tokens - 1 : tokens, at: now });
      if (buckets.size > KEPT) dropFull(now);
      return taken ? 0 : (1 - tokens) / rate;
    },
  };
}
