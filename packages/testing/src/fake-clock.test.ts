import { expect, test } from '@jest/globals';
import { createFakeClock } from './fake-clock.ts';

test('sleepers wake in order, each at its own time, and may sleep again within one advance', async () => {
  const clock = createFakeClock(1000);
  const woken: string[] = [];
  const note = (name: string) => woken.push(`${name}@${clock.now()}`);
  const twice = clock.sleep(10).then(async () => {
    note('a');
    await clock.sleep(10);
    note('a again');
  });
  const between = clock.sleep(15).then(() => note('b'));
  const later = clock.sleep(31).then(() => note('c'));
  await clock.advance(30);
  await Promise.all([twice, between]);
  expect(woken).toEqual(['a@1010', 'b@1015', 'a again@1020']);
  expect(clock.now()).toBe(1030);
  expect(clock.wakings()).toEqual([1031]);
  await clock.advance(1);
  await later;
  expect(woken.at(-1)).toBe('c@1031');
});

test('an aborted signal ends a sleep, before it begins too', async () => {
  const clock = createFakeClock();
  const abort = new AbortController();
  const sleeping = clock.sleep(1000, abort.signal);
  await clock.asleep();
  abort.abort();
  await sleeping;
  await clock.sleep(1000, abort.signal);
  expect(clock.wakings()).toEqual([]);
});

test('a loop that sleeps for no time is an error, not a test that never ends', async () => {
  const clock = createFakeClock();
  const stop = new AbortController();
  const looping = (async () => {
    while (!stop.signal.aborted) await clock.sleep(0, stop.signal);
  })();
  await expect(clock.advance(1)).rejects.toThrow('sleeps without end');
  stop.abort();
  await looping;
});
