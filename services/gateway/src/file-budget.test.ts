import { expect, test } from '@jest/globals';
import { createFileBudget } from './file-budget.ts';

const MB = 1024 * 1024;
const MINUTE = 60_000;

function createBudget() {
  const clock = { at: 0, now: () => clock.at };
  const budget = createFileBudget(10 * MB, { keptMs: 40 * MINUTE, clock });
  const take = (ownerId: string, bytes = MB - 16 * 1024) => budget.take(ownerId, [Buffer.alloc(bytes)]);
  return { clock, take };
}

test('one owner gets half of it, and another one still has room', () => {
  const { take } = createBudget();
  for (let n = 0; n < 5; n += 1) expect(take('a')).toBeDefined();
  expect(take('a')).toBeUndefined();
  expect(take('b')).toBeDefined();
});

test('files count until they have expired, or were not stored', () => {
  const { clock, take } = createBudget();
  const taken = Array.from({ length: 5 }, () => take('a'));
  taken[0]!();
  expect(take('a')).toBeDefined();
  expect(take('a')).toBeUndefined();
  clock.at = 39 * MINUTE;
  expect(take('a')).toBeUndefined();
  clock.at = 40 * MINUTE;
  expect(take('a')).toBeDefined();
  // Given back after it has expired: nothing changes.
  taken[1]!();
  for (let n = 0; n < 4; n += 1) expect(take('a')).toBeDefined();
  expect(take('a')).toBeUndefined();
});

test('files expire after the clock was set back, except those stored before', () => {
  const { clock, take } = createBudget();
  clock.at = 1_440 * MINUTE;
  take('a');
  clock.at = 0;
  for (let n = 0; n < 4; n += 1) expect(take('a')).toBeDefined();
  expect(take('a')).toBeUndefined();
  clock.at = 40 * MINUTE;
  expect(take('a')).toBeDefined();
});

test('files without bytes take room, too', () => {
  const { take } = createBudget();
  let count = 0;
  while (take('a', 0)) count += 1;
  expect(count).toBe(320);
});
