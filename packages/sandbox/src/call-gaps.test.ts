import { expect, test } from '@jest/globals';
import { createCallGaps } from './call-gaps.ts';

test('the gap of a key is the shorter one of its last two, also across series of calls', () => {
  let now = 0;
  const gaps = createCallGaps(() => now);
  const call = (at: number, key = 'a') => {
    now = at;
    const gap = gaps.begin(key);
    gaps.end(key);
    return gap;
  };
  expect([0, 60, 120, 190].map((at) => call(at))).toEqual([0, 60, 60, 60]);
  // Two calls, a pause, two calls.
  expect([191, 251, 252, 312].map((at) => call(at))).toEqual([1, 1, 1, 1]);
  expect(call(372)).toBe(60);
  expect(call(400, 'b')).toBe(0);
});

test('the duration of a call does not count', () => {
  let now = 0;
  const gaps = createCallGaps(() => now);
  gaps.begin('a');
  now = 50;
  gaps.end('a');
  now = 60;
  expect(gaps.begin('a')).toBe(10);
});
