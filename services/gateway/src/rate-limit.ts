import type { Clock } from '@wellspring/core/clock';
import { tooManyRequests } from '@wellspring/core/problem';

interface Bucket {
  tokens: number;
  /** Epoch ms. */
  at: number;
}

/** Full buckets are dropped once there are more than this. */
const KEPT = 10_000;

/**
 * A token bucket per key: `rate` requests a second, bursts of twice that. Per process.
 * @param rate 0: no limit
 * @returns takes a token. @throws Problem 429
 */
export function createRateLimit(rate: number, clock: Clock): (key: string) => void {
  if (rate <= 0) return () => {};
  const size = 2 * rate;
  const buckets = new Map<string, Bucket>();

  function dropFull(now: number): void {
    for (const [key, { tokens, at }] of buckets) {
      if (tokens + ((now - at) / 1000) * rate >= size) buckets.delete(key);
    }
    // All of them are in use: the oldest go, whose users then start with a full one.
    for (const key of buckets.keys()) {
      if (buckets.size <= KEPT) break;
      buckets.delete(key);
    }
  }

  return (key) => {
    const now = clock.now();
    const bucket = buckets.get(key) ?? { tokens: size, at: now };
    bucket.tokens = Math.min(size, bucket.tokens + (Math.max(0, now - bucket.at) / 1000) * rate);
    bucket.at = now;
    if (bucket.tokens < 1) {
      buckets.set(key, bucket);
      throw tooManyRequests((1 - bucket.tokens) / rate);
    }
    bucket.tokens -= 1;
    buckets.set(key, bucket);
    if (buckets.size > KEPT) dropFull(now);
  };
}
