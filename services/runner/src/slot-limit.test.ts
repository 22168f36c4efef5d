import { beforeEach, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { createSlotLimit, MAX_SLOTS, MIN_SLOTS, type SlotLimit } from './slot-limit.ts';

let time: number;
let turns: { count: number; busyMs: number };
let limit: SlotLimit;
beforeEach(() => {
  time = 1000;
  turns = { count: 5, busyMs: 100 };
  limit = createSlotLimit(
    () => time,
    () => turns,
  );
});

/** The thread is always busy, with turns of that duration. */
function pass(ms: number, turnMs: number, held = MAX_SLOTS): number {
  time += ms;
  turns = { count: turns.count + ms / turnMs, busyMs: turns.busyMs + ms };
  limit.adapt(() => held);
  return limit.current;
}

const passAll = (count: number, turnMs: number) => {
  for (let n = 0; n < count; n += 1) pass(250, turnMs);
  return limit.current;
};

test('falls from the slots that are held to the minimum while turns are long, and rises to the maximum again', () => {
  expect(limit.current).toBe(MAX_SLOTS);
  pass(250, 125);
  const first = pass(250, 125, 40);
  expect(first).toBeLessThan(40);
  expect(first).toBeGreaterThan(20);
  expect(passAll(20, 125)).toBe(MIN_SLOTS);
  const next = pass(250, 1);
  expect(next).toBeGreaterThan(MIN_SLOTS);
  expect(next).toBeLessThan(2 * MIN_SLOTS);
  expect(passAll(60, 1)).toBe(MAX_SLOTS);
});

test('rises as much in a long time without runs', () => {
  passAll(20, 125);
  expect(pass(60_000, 1)).toBe(MAX_SLOTS);
});

test('stays after one long turn', () => {
  passAll(4, 1);
  pass(600, 600, 0);
  expect(passAll(4, 1)).toBe(MAX_SLOTS);
});

test('stays while many short turns keep the thread busy', () => {
  expect(passAll(20, 20)).toBe(MAX_SLOTS);
});

test('changes once in a quarter of a second', () => {
  passAll(1, 125);
  const first = pass(250, 125);
  for (let n = 0; n < 4; n += 1) expect(pass(50, 25)).toBe(first);
  expect(pass(50, 25)).not.toBe(first);
});

test('falls in a process whose thread is blocked, and rises when the thread has short turns', async () => {
  const measured = createSlotLimit();
  for (let turn = 0; turn < 2; turn += 1) {
    for (const until = performance.now() + 300; performance.now() < until; );
    await new Promise((resolve) => setImmediate(resolve));
    measured.adapt(() => MAX_SLOTS);
  }
  const fallen = measured.current;
  expect(fallen).toBeLessThan(MAX_SLOTS);
  await eventually(() => {
    measured.adapt(() => MAX_SLOTS);
    return measured.current > fallen;
  });
});
