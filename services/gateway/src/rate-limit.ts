import { tooManyRequests } from '@wellspring/core/problem';
import type { TokenBuckets } from '@wellspring/core/token-buckets';

/**
 * Allows `rate` requests per second and key, with bursts of twice that.
 * @param what name of the limit; each has its own buckets
 * @param rate 0: no limit
 * @returns resolves when the request may pass. @throws Problem 429
 */
export function createRateLimit(
  what: 'api' | 'endpoint',
  rate: number,
  buckets: TokenBuckets,
): (key: string) => Promise<void> {
  return async (key) => {
    if (rate <= 0) return;
    const seconds = await buckets.take(`${what}/${key}`, rate);
    if (seconds > 0) throw tooManyRequests(seconds);
  };
}
