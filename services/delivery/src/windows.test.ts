import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, expect, test } from '@jest/globals';
import { createFakeClock, type FakeClock } from '@wellspring/testing/fake-clock';
import { createWindows, type Windows } from './windows.ts';

const LIMITS = { size: 2, displaced: 3, waitingMs: 250, inProgressMs: 100 };
let clock: FakeClock;
let windows: Windows;
let displaced: string[];
let entered: string[];

beforeEach(() => {
  [clock, displaced, entered] = [createFakeClock(), [], []];
  windows = createWindows(LIMITS, clock);
});

async function pass(ms: number): Promise<void> {
  await clock.advance(ms);
  await nextTurn();
}

/** Resolves with the function to be called when the item leaves. */
async function enter(
  name: string,
  { displaces = false, isWaiting = false } = {},
  key = 'key',
): Promise<() => void> {
  const item = { isWaiting: () => isWaiting, onDisplaced: () => displaced.push(name) };
  const leave = await windows.enter(key, displaces, item);
  entered.push(name);
  return leave;
}

test('a full window admits the next when an item leaves, in order', async () => {
  const leave = await enter('a');
  await enter('b');
  void enter('c');
  void enter('d');
  await pass(10_000);
  expect(entered).toEqual(['a', 'b']);
  leave();
  leave();
  await pass(0);
  expect(entered).toEqual(['a', 'b', 'c']);
  expect(displaced).toEqual([]);
  await enter('other', {}, 'other key');
});

test('items that have been in progress for long give their places to one that displaces, the oldest first', async () => {
  const leave = await enter('a');
  await pass(40);
  await enter('b');
  void enter('c', { displaces: true });
  void enter('d', { displaces: true });
  await pass(59);
  expect(displaced).toEqual([]);
  await pass(1);
  expect([displaced, entered]).toEqual([['a'], ['a', 'b', 'c']]);
  // Its place is another one's.
  leave();
  await pass(0);
  expect(entered).toEqual(['a', 'b', 'c']);
  await pass(40);
  expect([displaced, entered]).toEqual([
    ['a', 'b'],
    ['a', 'b', 'c', 'd'],
  ]);
});

test('items that wait are displaced later than those in progress', async () => {
  await enter('a', { isWaiting: true });
  await enter('b');
  void enter('c', { displaces: true });
  void enter('d', { displaces: true, isWaiting: true });
  await pass(100);
  expect(displaced).toEqual(['b']);
  await pass(100);
  expect(displaced).toEqual(['b', 'c']);
  void enter('e', { displaces: true });
  await pass(49);
  expect(displaced).toEqual(['b', 'c']);
  await pass(1);
  expect(displaced).toEqual(['b', 'c', 'a']);
});

test('at most so many items are displaced until they leave, of all keys', async () => {
  const leaves = [await enter('a'), await enter('b')];
  for (const name of ['c', 'd', 'e', 'f', 'g']) {
    enter(name, { displaces: true }).then((leave) => leaves.push(leave));
    await pass(100);
  }
  expect(displaced).toEqual(['a', 'b', 'c']);
  await enter('x', {}, 'other key');
  await enter('y', {}, 'other key');
  void enter('z', { displaces: true }, 'other key');
  await pass(10_000);
  expect(displaced).toEqual(['a', 'b', 'c']);
  leaves[0]!();
  leaves[1]!();
  await pass(100);
  expect(displaced).toHaveLength(5);
});

test('a clock that is set back does not prolong the time of a place', async () => {
  await enter('a');
  await enter('b');
  await clock.advance(-3_600_000);
  await enter('c', { displaces: true });
  expect(displaced).toEqual(['a']);
});
