import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { systemClock } from './clock.ts';
import { createTokenBuckets } from './token-buckets.ts';

/** A clock that is advanced manually. */
function standingClock() {
  let time = 1_700_000_000_000;
  const advance = (ms: number) => {
    time += ms;
  };
  return { ...systemClock, now: () => time, advance };
}

const passed = (take: () => unknown, count: number) =>
  Array.from({ length: count }, take).filter((seconds) => seconds === 0).length;

test('a burst of twice the rate is granted, then the rate', () => {
  const clock = standingClock();
  const buckets = createTokenBuckets(clock);
  expect(passed(() => buckets.take('a', 10), 25)).toBe(20);
  clock.advance(1_000);
  expect(passed(() => buckets.take('a', 10), 25)).toBe(10);
});

test('a refused request returns the time until the next token', () => {
  const clock = standingClock();
  const buckets = createTokenBuckets(clock);
  passed(() => buckets.take('a', 4), 8);
  expect(buckets.take('a', 4)).toBe(0.25);
  clock.advance(250);
  expect(buckets.take('a', 4)).toBe(0);
});

test('no interval grants more than a burst plus the rate', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 20 }),
      fc.array(fc.integer({ min: 0, max: 3_000 }), { maxLength: 60 }),
      (rate, pauses) => {
        const clock = standingClock();
        const buckets = createTokenBuckets(clock);
        const begun = clock.now();
        let count = 0;
        for (const pause of pauses) {
          clock.advance(pause);
          if (buckets.take('a', rate) === 0) count += 1;
          expect(count).toBeLessThanOrEqual(2 * rate + ((clock.now() - begun) / 1_000) * rate);
        }
      },
    ),
    { numRuns: 30 },
  );
});

test('keys have separate buckets', () => {
  const buckets = createTokenBuckets(standingClock());
  for (const key of ['a', 'b', 'c']) expect(passed(() => buckets.take(key, 1), 3)).toBe(2);
});
