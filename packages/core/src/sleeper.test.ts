import { expect, test } from '@jest/globals';
import { systemClock } from './clock.ts';
import { createSleeper } from './sleeper.ts';

test.each([
  ['has nothing to wait for', 0, false],
  ['is woken each time', 60_000, true],
])('a loop that %s gives other work a turn', async (_, ms, isWoken) => {
  const sleeper = createSleeper(systemClock);
  let hadTurn = false;
  setImmediate(() => {
    hadTurn = true;
  });
  for (let round = 0; round < 3; round += 1) {
    if (isWoken) sleeper.wake();
    await sleeper.sleep(ms, AbortSignal.timeout(60_000));
  }
  expect(hadTurn).toBe(true);
});
