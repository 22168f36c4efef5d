import { expect, test } from '@jest/globals';
import { createFakeClock } from './fake-clock.ts';

test('sleepers wake in order of time, and those that sleep a second time wake within the same advance', async () => {
  const clock = createFakeClock(1000);
  const woken: string[] = [];
  const note = (name: string) => woken.push(`${name}@${clock.now()}`);
  const twice = clock.sleep(10).then(async () => {
    note('a');
    await clock.sleep(10);
    note('a twice');
  });
  const between = clock.sleep(15).then(() => note('b'));
  const later = clock.sleep(31).then(() => note('c'));
  await clock.advance(30);
  await Promise.all([twice, between]);
  expect(woken).toEqual(['a@1010', 'b@1015', 'a twice@1020']);
  expect(clock.now()).toBe(1030);
  expect(clock.wakings()).toEqual([1031]);
  await clock.advance(1);
  await later;
  expect(woken.at(-1)).toBe('c@1031');
});

test('an aborted signal ends a sleep, or prevents it', async () => {
  const clock = createFakeClock();
  const abort = new AbortController();
  const sleeping = clock.sleep(1000, abort.signal);
  await clock.asleep();
  abort.abort();
  await sleeping;
  await clock.sleep(1000, abort.signal);
  expect(clock.wakings()).toEqual([]);
});

test('an endless loop of sleeps of 0 ms throws', async () => {
  const clock = createFakeClock();
  const stop = new AbortController();
  const looping = (async () => {
    while (!stop.signal.aborted) await clock.sleep(0, stop.signal);
  })();
  await expect(clock.advance(1)).rejects.toThrow('sleeps without end');
  stop.abort();
  await looping;
});
