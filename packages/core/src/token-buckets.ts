import type { Clock } from './clock.ts';

/** Token bucket per key: capacity `2 * rate`, refilled with `rate` tokens per second. */
export interface TokenBuckets {
  /** Takes a token; the rate of a key is constant. @returns 0, or the seconds until the next token. Never rejects. */
  take(key: string, rate: number): number | Promise<number>;
}

interface Bucket {
  rate: number;
  tokens: number;
  /** Epoch ms. */
  at: number;
}

/** Above this number, full buckets are dropped. */
const MAX_BUCKETS = 10_000;

/** Buckets of one process. */
export function createTokenBuckets(clock: Clock): TokenBuckets {
  const buckets = new Map<string, Bucket>();

  /** A clock that was set back adds no tokens. */
  const tokensOf = ({ rate, tokens, at }: Bucket, now: number) =>
    Math.min(2 * rate, tokens + (Math.max(0, now - at) / 1000) * rate);

  function dropFull(now: number): void {
    for (const [key, bucket] of buckets) {
      if (tokensOf(bucket, now) >= 2 * bucket.rate) buckets.delete(key);
    }
    // All are in use: drops the oldest, which start full at their next use.
    for (const key of buckets.keys()) {
      if (buckets.size <= MAX_BUCKETS) break;
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
      if (buckets.size > MAX_BUCKETS) dropFull(now);
      return taken ? 0 : (1 - tokens) / rate;
    },
  };
}
