import { expect, test } from '@jest/globals';
import { createOverloadCheck } from './overload.ts';

test('the processors are overloaded while the thread waits for them', () => {
  let now = 0;
  const times = { ran: 1000, waited: 5000 };
  const isOverloaded = createOverloadCheck(
    () => ({ ...times }),
    () => now,
  );
  const after = (ran: number, waited: number) => {
    now += 300;
    times.ran += ran;
    times.waited += waited;
    return isOverloaded();
  };
  expect(isOverloaded()).toBe(false);
  expect(after(100, 5)).toBe(false);
  expect(after(20, 200)).toBe(true);
  // Too early for another measurement.
  now += 10;
  times.ran += 1000;
  expect(isOverloaded()).toBe(true);
  expect(after(0, 0)).toBe(false);
  expect(after(0, 0)).toBe(false);
});

test('the processors count as free if the kernel reports nothing', () => {
  let now = 0;
  const isOverloaded = createOverloadCheck(
    () => undefined,
    () => (now += 1000),
  );
  expect(isOverloaded()).toBe(false);
  expect(isOverloaded()).toBe(false);
});
