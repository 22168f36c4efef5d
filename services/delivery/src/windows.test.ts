import { beforeEach, expect, test } from '@jest/globals';
import type { Clock } from '@wellspring/core/clock';
import { createWindows, type Windows } from './windows.ts';

const MAX_HELD_MS = 250;
let now: number;
let sleeps: { until: number; wake: () => void }[];
let windows: Windows;
let displaced: string[];
let entered: string[];

beforeEach(() => {
  [now, sleeps, displaced, entered] = [1_000_000, [], [], []];
  const clock: Clock = {
    now: () => now,
    sleep: (ms) => new Promise((wake) => sleeps.push({ until: now + ms, wake })),
  };
  windows = createWindows(2, MAX_HELD_MS, clock);
});

async function pass(ms: number): Promise<void> {
  now += ms;
  for (const { wake } of sleeps.filter(({ until }) => until <= now)) wake();
  sleeps = sleeps.filter(({ until }) => until > now);
  await new Promise((resolve) => setImmediate(resolve));
}

/** Resolves with the function that frees the place. */
async function enter(name: string, displaces = false): Promise<() => void> {
  const free = await windows.enter('key', displaces, () => displaced.push(name));
  entered.push(name);
  return free;
}

test('a full window admits the next when a place becomes free, in order', async () => {
  const free = await enter('a');
  await enter('b');
  void enter('c');
  void enter('d');
  await pass(MAX_HELD_MS * 10);
  expect(entered).toEqual(['a', 'b']);
  free();
  free();
  await pass(0);
  expect(entered).toEqual(['a', 'b', 'c']);
  expect(displaced).toEqual([]);
  expect(typeof windows.enter('other', false, () => {})).toBe('function');
});

test('places that have been held for long are freed for one that may displace them, the oldest first', async () => {
  const free = await enter('a');
  await pass(100);
  await enter('b');
  void enter('c', true);
  void enter('d', true);
  await pass(MAX_HELD_MS - 101);
  expect(displaced).toEqual([]);
  await pass(1);
  expect([displaced, entered]).toEqual([['a'], ['a', 'b', 'c']]);
  // Its place is another one's.
  free();
  await pass(0);
  expect(entered).toEqual(['a', 'b', 'c']);
  await pass(100);
  expect([displaced, entered]).toEqual([
    ['a', 'b'],
    ['a', 'b', 'c', 'd'],
  ]);
});

test('a clock that is set back does not prolong the time of a place', async () => {
  await enter('a');
  await enter('b');
  now -= 3_600_000;
  await enter('c', true);
  expect(displaced).toEqual(['a']);
});
