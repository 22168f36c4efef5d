import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { createDeadline } from './deadline.ts';

test('a limit expires once and not too early', async () => {
  const expired: number[] = [];
  const deadline = createDeadline(() => expired.push(performance.now()));
  const now = performance.now();
  deadline.set(now + 20, now);
  await eventually(() => expect(expired).toHaveLength(1));
  expect(expired[0]).toBeGreaterThanOrEqual(now + 20);
  deadline.close();
});

test('a limit that was unset or postponed does not expire at its first time', async () => {
  let expired = 0;
  const deadline = createDeadline(() => (expired += 1));
  const other = createDeadline(() => (otherExpired = true));
  let otherExpired = false;
  const now = performance.now();
  deadline.set(now + 10, now);
  deadline.unset();
  deadline.set(now + 600_000, now);
  other.set(now + 10, now);
  await eventually(() => expect(otherExpired).toBe(true));
  expect(expired).toBe(0);
  // An earlier time replaces it.
  deadline.set(performance.now() + 10, performance.now());
  await eventually(() => expect(expired).toBe(1));
  deadline.close();
  other.close();
});

test('a closed limit never expires', async () => {
  let expired = false;
  let otherExpired = false;
  const deadline = createDeadline(() => (expired = true));
  const other = createDeadline(() => (otherExpired = true));
  const now = performance.now();
  deadline.set(now + 5, now);
  deadline.close();
  other.set(now + 20, now);
  await eventually(() => expect(otherExpired).toBe(true));
  expect(expired).toBe(false);
  other.close();
});
