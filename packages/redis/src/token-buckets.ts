import type { TokenBuckets } from '@wellspring/core/token-buckets';
import { withTimeout } from '@wellspring/core/with-timeout';
import type { Redis } from './client.ts';

const ANSWER_TIMEOUT_MS = 200;
/** After a timeout, only the local buckets are used for this long. */
const LOCAL_FALLBACK_MS = 1_000;

/**
 * The key stores the time at which its bucket will be full, in ms of the server's clock; a token postpones it by the
 * time in which one is added. A time beyond that of an empty bucket was stored before the clock was set back. Returns ms
 * until there is a token, as text, since Redis truncates numbers.
 */
const TAKE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local rate = tonumber(ARGV[1])
local stored = tonumber(redis.call('GET', KEYS[1]) or now)
local full = math.max(now, math.min(now + 2000, stored)) + 1000 / rate
local wait = full - now - 2000
if wait > 0.001 then return tostring(wait) end
redis.call('SET', KEYS[1], string.format('%.3f', full), 'PX', math.ceil(full - now))
return '0'
`;

/**
 * Buckets shared by all processes of an installation.
 * @param local used while Redis does not answer
 */
export function createSharedBuckets(
  redis: Redis,
  local: TokenBuckets,
  { answerTimeoutMs = ANSWER_TIMEOUT_MS } = {},
): TokenBuckets {
  const script = redis.script(TAKE, 1);
  let localUntil = 0;
  return {
    async take(key, rate) {
      if (!redis.isUp || performance.now() < localUntil) return local.take(key, rate);
      const answer = script(`bucket/${key}`, rate).then(
        (wait) => Number(wait) / 1000,
        () => undefined,
      );
      const seconds = await withTimeout(answer, answerTimeoutMs);
      if (seconds !== undefined) return seconds;
      localUntil = performance.now() + LOCAL_FALLBACK_MS;
      return local.take(key, rate);
    },
  };
}
