import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createRestartDelays, RESTART_INTERVAL_MS, type RestartDelays } from './restart-delays.ts';

let now: number;
let isShared: boolean;
let slept: number[];
let delays: RestartDelays;
beforeEach(() => {
  now = 1_000_000;
  isShared = true;
  slept = [];
  delays = createRestartDelays({
    isShared: () => isShared,
    now: () => now,
    async sleep(ms) {
      slept.push(ms);
    },
  });
});
afterEach(() => delays.close());

test('the first fault of a key delays nothing, and neither do faults that are far apart', async () => {
  delays.failed('o', 'a');
  await delays.wait('a');
  now += 10_000;
  delays.failed('o', 'a');
  await delays.wait('a');
  expect(slept).toEqual([]);
});

test('repeated faults delay the next start of their key only', async () => {
  for (const key of ['a', 'a', 'b']) delays.failed('o', key);
  for (const key of ['a', 'b', 'c']) await delays.wait(key);
  expect(slept).toEqual([RESTART_INTERVAL_MS]);
});

test('keys of an owner share the interval; those of another owner do not', async () => {
  for (const key of ['a', 'b', 'c']) {
    delays.failed('o', key);
    delays.failed('o', key);
  }
  delays.failed('p', 'd');
  delays.failed('p', 'd');
  for (const key of ['a', 'b', 'c', 'd']) await delays.wait(key);
  expect(slept).toEqual([1, 2, 3, 1].map((n) => n * RESTART_INTERVAL_MS));
});

test('a key that waits longer than faults are remembered is still delayed after its next fault', async () => {
  for (let n = 0; n < 60; n++) {
    delays.failed('o', `k${n}`);
    delays.failed('o', `k${n}`);
  }
  now += 59 * RESTART_INTERVAL_MS;
  delays.failed('o', 'k58');
  await delays.wait('k58');
  expect(slept).toEqual([2 * RESTART_INTERVAL_MS]);
});

test('nothing is delayed while only one owner has calls', async () => {
  isShared = false;
  delays.failed('o', 'a');
  delays.failed('o', 'a');
  await delays.wait('a');
  expect(slept).toEqual([]);
});
