import { beforeEach, describe, expect, test } from '@jest/globals';
import { createRunSlots, type RunSlots } from './run-slots.ts';
import type { SlotLimit } from './slot-limit.ts';
import { createSlotTimers } from './slot-timers.fixture.ts';

const HEAVY = 'u_heavy';
const LIGHT = 'u_light';

/** A run that ends when it is told to. */
const run = () => Promise.withResolvers<void>();
const turn = () => new Promise((resolve) => setImmediate(resolve));

let limit: { -readonly [K in keyof SlotLimit]: SlotLimit[K] };
let heavy: Set<string>;
let expire: () => void;
let slots: RunSlots;
beforeEach(() => {
  limit = { current: 4, adapt() {} };
  heavy = new Set([HEAVY]);
  const timers = createSlotTimers();
  expire = timers.expire;
  slots = createRunSlots({ isHeavy: (ownerId) => heavy.has(ownerId) }, limit, timers.later);
});

const never = new AbortController().signal;

/** Batches of one run each. */
async function start(ownerId: string, count: number, signal = never) {
  const ready: number[] = [];
  const refused: Error[] = [];
  const batches = Array.from({ length: count }, () => ({ slot: slots.open(ownerId), run: run() }));
  batches.forEach(({ slot, run }, n) => {
    slot.ready(signal).then(
      () => {
        ready.push(n);
        slot.add(run.promise);
      },
      (error) => refused.push(error),
    );
  });
  await turn();
  return { ready, refused, batches };
}

describe('an owner that causes most of the work', () => {
  test('gets as many slots as the limit, in order, and another one when one is given back', async () => {
    const { ready, batches } = await start(HEAVY, 7);
    expect(ready).toEqual([0, 1, 2, 3]);
    expect(slots.stats()).toMatchObject({ waiting: 3 });
    batches[1]!.slot[Symbol.dispose]();
    await turn();
    // Its run is in progress.
    expect(ready).toEqual([0, 1, 2, 3]);
    batches[1]!.run.resolve();
    await turn();
    expect(ready).toEqual([0, 1, 2, 3, 4]);
    batches[0]!.run.reject(new Error('The commit failed'));
    batches[0]!.slot[Symbol.dispose]();
    await turn();
    expect(ready).toEqual([0, 1, 2, 3, 4, 5]);
  });

  test('does not delay another owner', async () => {
    await start(HEAVY, 10);
    expect((await start(LIGHT, 20)).ready).toHaveLength(20);
  });

  test('gets the slots that it waits for when the limit rises, or others cause more', async () => {
    const { ready, batches } = await start(HEAVY, 20);
    limit.current = 8;
    batches[0]!.run.resolve();
    batches[0]!.slot[Symbol.dispose]();
    await turn();
    expect(ready).toHaveLength(9);
    heavy.clear();
    batches[1]!.run.resolve();
    batches[1]!.slot[Symbol.dispose]();
    await turn();
    expect(ready).toHaveLength(20);
  });

  test('gets further slots when runs do not end', async () => {
    const { ready, batches } = await start(HEAVY, 10);
    expire();
    await turn();
    expect(ready).toHaveLength(8);
    // A slot that is given back late does not count twice.
    for (const { slot, run } of batches.slice(0, 4)) {
      run.resolve();
      slot[Symbol.dispose]();
    }
    await turn();
    expect(ready).toHaveLength(8);
    expire();
    await turn();
    expect(ready).toHaveLength(10);
  });

  test('gets its runs back when the process ends', async () => {
    const ending = new AbortController();
    const { ready, refused } = await start(HEAVY, 10, ending.signal);
    ending.abort();
    await turn();
    expect(ready).toHaveLength(4);
    expect(refused.map(({ name }) => name)).toEqual(Array(6).fill('Unavailable'));
    expect(slots.stats()).toMatchObject({ waiting: 0 });
    expect((await start(HEAVY, 10, ending.signal)).refused).toHaveLength(10);
  });

  test('takes another slot when a batch has held one for long', async () => {
    const [long, ...others] = (await start(HEAVY, 4)).batches;
    expire();
    await start(HEAVY, 4);
    let isReady = false;
    long!.slot.ready(never).then(() => {
      isReady = true;
    });
    await turn();
    expect(isReady).toBe(false);
    expect(slots.stats()).toMatchObject({ waiting: 1 });
    for (const { slot, run } of others) {
      run.resolve();
      slot[Symbol.dispose]();
    }
    await turn();
    expect(isReady).toBe(false);
    expire();
    await turn();
    expect(isReady).toBe(true);
  });
});

test('a batch gives its slot back after sixteen runs', async () => {
  const long = slots.open(HEAVY);
  const runs = Array.from({ length: 17 }, run);
  for (const { promise } of runs.slice(0, 16)) {
    await long.ready(never);
    long.add(promise);
  }
  const { ready, batches } = await start(HEAVY, 4);
  expect(ready).toEqual([0, 1, 2]);
  let isReady = false;
  const next = long.ready(never).then(() => {
    isReady = true;
  });
  for (const { resolve } of runs.slice(0, 15)) resolve();
  await turn();
  expect(ready).toEqual([0, 1, 2]);
  runs[15]!.resolve();
  await turn();
  // The other batch waited first.
  expect(ready).toEqual([0, 1, 2, 3]);
  expect(isReady).toBe(false);
  for (const { slot, run } of batches) {
    slot[Symbol.dispose]();
    run.resolve();
  }
  await next;
});
