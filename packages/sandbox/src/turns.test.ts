import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { createFairQueue } from './fair-queue.ts';
import { createTurns } from './turns.ts';

test('owners take turns, regardless of their number of items', () => {
  const queue = createFairQueue<string>();
  for (const item of ['a1', 'a2', 'a3', 'a4']) queue.push('a', item);
  queue.push('b', 'b1');
  queue.push('c', 'c1');
  queue.push('b', 'b2');
  const order = [];
  for (let item = queue.shift(); item; item = queue.shift()) order.push(item);
  expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4']);
  expect(queue.size).toBe(0);
});

/** Work that takes `units` slices. */
function workOf(name: string, units: number, done: string[]) {
  let left = units;
  return (deadline: number) => {
    while (performance.now() < deadline) {
      // Uses the whole slice.
    }
    done.push(name);
    left -= 1;
    return left > 0;
  };
}

test('short work is not delayed, and long work lets others take turns', async () => {
  const turns = createTurns();
  const done: string[] = [];
  expect(turns.run('b', () => false)).toBe(true);
  expect(turns.run('a', workOf('a', 20, done))).toBe(false);
  for (let n = 0; n < 8; n++) turns.run('a', workOf(`a${n}`, 20, done));
  turns.run('b', workOf('b', 1, done));
  await eventually(() => expect(done).toContain('b'));
  expect(done.indexOf('b')).toBeLessThan(10);
  await eventually(() => expect(done).toHaveLength(181));
});
