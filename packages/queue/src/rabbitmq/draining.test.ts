import { expect, test } from '@jest/globals';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { createDraining } from './draining.ts';

test('a key is held for ten seconds at most while jobs of others run for minutes', async () => {
  const clock = createFakeClock();
  const held = new Set<string>();
  const dispatcher = {
    hold(key: string) {
      held.add(key);
      return () => void held.delete(key);
    },
  };
  /** By key, the time since which a job of it is out. */
  const out = new Map([
    ['short', clock.now()],
    ['long', clock.now()],
  ]);
  const received = {
    jobs: new Map(),
    keysOut: (before = Number.POSITIVE_INFINITY) =>
      new Set([...out].filter(([, since]) => since < before).map(([key]) => key)),
  };
  const draining = createDraining(dispatcher, received, clock, clock.now);
  const drained = draining.drain(new AbortController().signal);
  const advance = async (seconds: number) => {
    for (let n = 0; n < 10 * seconds; n += 1) await clock.advance(100);
  };
  await advance(2);
  expect([...held].sort()).toEqual(['long', 'short']);
  out.delete('short');
  await advance(9);
  expect(held.has('short')).toBe(true);
  await advance(2);
  expect([...held]).toEqual(['long']);
  // Its next job runs for long, too.
  out.set('short', clock.now());
  await advance(2);
  expect([...held].sort()).toEqual(['long', 'short']);
  out.clear();
  await advance(1);
  await drained;
});
