import { expect, test } from '@jest/globals';
import { createTokenBuckets } from '@wellspring/core/token-buckets';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { createRateLimit } from './rate-limit.ts';

test('the refusal tells when the next one passes', async () => {
  const clock = createFakeClock();
  const limit = createRateLimit('api', 1, createTokenBuckets(clock));
  await limit('a');
  await limit('a');
  await expect(limit('a')).rejects.toMatchObject({ status: 429, headers: { 'retry-after': '1' } });
  await clock.advance(1_000);
  await limit('a');
});

test('different limits have separate buckets', async () => {
  const buckets = createTokenBuckets(createFakeClock());
  for (const what of ['api', 'endpoint'] as const) {
    const limit = createRateLimit(what, 1, buckets);
    await limit('a');
    await limit('a');
    await expect(limit('a')).rejects.toMatchObject({ status: 429 });
  }
});

test('0 is no limit', async () => {
  const limit = createRateLimit('api', 0, createTokenBuckets(createFakeClock()));
  for (let i = 0; i < 1_000; i += 1) await limit('a');
});
