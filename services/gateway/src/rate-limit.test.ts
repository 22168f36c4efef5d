import { expect, test } from '@jest/globals';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import fc from 'fast-check';
import { createRateLimit } from './rate-limit.ts';

const passes = (limit: (key: string) => void, key = 'a') => {
  try {
    limit(key);
    return true;
  } catch {
    return false;
  }
};

test('a burst of twice the rate passes, then as many as the rate allows', async () => {
  const clock = createFakeClock();
  const limit = createRateLimit(10, clock);
  expect(Array.from({ length: 25 }, () => passes(limit)).filter(Boolean)).toHaveLength(20);
  await clock.advance(1_000);
  expect(Array.from({ length: 25 }, () => passes(limit)).filter(Boolean)).toHaveLength(10);
});

test('the refusal tells when the next one passes', async () => {
  const clock = createFakeClock();
  const limit = createRateLimit(1, clock);
  limit('a');
  limit('a');
  expect(() => limit('a')).toThrow(expect.objectContaining({ status: 429, headers: { 'retry-after': '1' } }));
  await clock.advance(1_000);
  expect(passes(limit)).toBe(true);
});

test('never do more pass in any stretch of time than its length and a burst allow', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 20 }),
      fc.array(fc.integer({ min: 0, max: 3_000 }), { maxLength: 60 }),
      async (rate, pauses) => {
        const clock = createFakeClock();
        const limit = createRateLimit(rate, clock);
        const begun = clock.now();
        let passed = 0;
        for (const pause of pauses) {
          await clock.advance(pause);
          if (passes(limit)) passed += 1;
          expect(passed).toBeLessThanOrEqual(2 * rate + ((clock.now() - begun) / 1_000) * rate);
        }
      },
    ),
    { numRuns: 30 },
  );
});

test('keys do not share, and 0 is no limit', () => {
  const clock = createFakeClock();
  const limit = createRateLimit(1, clock);
  for (const key of ['a', 'b', 'c'])
    expect([passes(limit, key), passes(limit, key), passes(limit, key)]).toEqual([true, true, false]);
  const open = createRateLimit(0, clock);
  expect(Array.from({ length: 1_000 }, () => passes(open)).every(Boolean)).toBe(true);
});
