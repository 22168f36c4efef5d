import type { TokenBuckets } from '@wellspring/core/token-buckets';
import { withTimeout } from '@wellspring/core/with-timeout';
import type { Redis } from './client.ts';

/** So long a request waits for Redis before it is judged by this process alone. */
const ANSWER_TIMEOUT_MS = 200;
/** After it did not answer, Redis is left alone for so long. */
const ALONE_MS = 1_000;

/**
 * One time a key: when its bucket will be full again. A token moves it on by the time in which one is added. By the
 * clock of the server, in milliseconds. Gives those until there is a token, as text: numbers lose their fraction.
 */
const TAKE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local rate = tonumber(ARGV[1])
local full = math.max(now, tonumber(redis.call('GET', KEYS[1]) or now)) + 1000 / rate
local wait = full - now - 2000
if wait > 0.001 then return tostring(wait) end
redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(full - now))
return '0'
`;

/**
 * The buckets of all processes of an installation.
 * @param alone those of this process, for as long as Redis does not answer
 */
export function createSharedBuckets(redis: Redis, alone: TokenBuckets): TokenBuckets {
  const script = redis.script(TAKE, 1);
  let aloneUntil = 0;
  return {
    async take(key, rate) {
      if (!redis.isUp || performance.now() < aloneUntil) return alone.take(key, rate);
      const answer = script(`bucket/${key}`, rate).then(
        (wait) => Number(wait) / 1000,
        () => undefined,
      );
      const seconds = await withTimeout(answer, ANSWER_TIMEOUT_MS);
      if (seconds !== undefined) return seconds;
      aloneUntil = performance.now() + ALONE_MS;
      return alone.take(key, rate);
    },
  };
}
