import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createByteBudget } from './byte-budget.ts';

test('one owner gets at most half; an owner without bytes gets the rest', () => {
  const budget = createByteBudget(100);
  expect(budget.tryTake(40, 'a')).toBeDefined();
  expect(budget.tryTake(11, 'a')).toBeUndefined();
  expect(budget.tryTake(60, 'b')).toBeDefined();
  expect(budget.used).toBe(100);
});

test('an amount above the total goes when half is free', () => {
  const budget = createByteBudget(100);
  const small = budget.tryTake(51)!;
  expect(budget.tryTake(1000)).toBeUndefined();
  small();
  const large = budget.tryTake(1000)!;
  expect(budget.tryTake(1)).toBeUndefined();
  large();
  large();
  expect(budget.used).toBe(0);
});

test('bytes that are in memory in any case are counted without room, and leave less to their owner and others', () => {
  const budget = createByteBudget(100);
  const release = budget.count(70, 'a');
  expect([budget.tryTake(1, 'a'), budget.tryTake(31, 'b')]).toEqual([undefined, undefined]);
  const more = budget.count(70, 'b');
  expect(budget.used).toBe(140);
  release();
  more();
  expect(budget.used).toBe(0);
  expect(budget.tryTake(50, 'a')).toBeDefined();
});

test('bytes beyond those that are kept are released, and the rest with the release', async () => {
  const budget = createByteBudget(100);
  const release = await budget.take(80, 'a');
  const waiting = budget.take(50, 'b');
  release.keep(90);
  expect(budget.used).toBe(80);
  release.keep(30);
  (await waiting)();
  expect(budget.used).toBe(30);
  release.keep(40);
  release();
  release.keep(10);
  release();
  expect(budget.used).toBe(0);
});

test('a request that is passed by smaller ones is served after a bounded number of them', async () => {
  const budget = createByteBudget(100);
  let last: () => void = await budget.take(60, 'holder');
  let served = false;
  void budget.take(50, 'large').then(() => {
    served = true;
  });
  let passed = 0;
  for (; passed < 10_000 && !served; passed++) {
    const next = budget.take(60 - (passed % 2), `small${passed}`);
    last();
    last = await Promise.race([next, Promise.resolve(() => {})]);
    await Promise.resolve();
  }
  expect(passed).toBeLessThan(1_000);
});

test('a large request for which others would have to release their bytes holds back no small ones', async () => {
  const budget = createByteBudget(100);
  const [a, b] = [budget.tryTake(50, 'a')!, budget.tryTake(25, 'b')!];
  let isServed = false;
  void budget.take(30, 'large').then(() => {
    isServed = true;
  });
  for (let n = 0; n < 1_000; n++) {
    const release = budget.tryTake(1, `small${n}`);
    expect(release).toBeDefined();
    release!();
  }
  b();
  await new Promise(setImmediate);
  expect(isServed).toBe(true);
  a();
});

test('small requests that keep a large one from its room are held back, also behind one of an owner that holds bytes', async () => {
  const budget = createByteBudget(100);
  budget.tryTake(30, 'a');
  const b = budget.tryTake(45, 'b')!;
  void budget.take(20, 'a');
  let isServed = false;
  void budget.take(50, 'large').then(() => {
    isServed = true;
  });
  const small: (() => void)[] = [];
  for (let n = 0; n < 1_000; n++) {
    small.push(budget.tryTake(8, `small${n}`)!);
    if (small.length === 3 && n < 999) small.shift()!();
  }
  b();
  expect(budget.used).toBe(30 + 3 * 8);
  // Without them, there would be room for the large one.
  expect(budget.tryTake(1, 'late')).toBeUndefined();
  expect(isServed).toBe(false);
  small.pop()!();
  await new Promise(setImmediate);
  expect(isServed).toBe(true);
});

test('requests of many owners that hold bytes do not hide one that fits', async () => {
  const budget = createByteBudget(1_000);
  const holders = Array.from({ length: 70 }, (_, n) => `holder${n}`);
  for (const holder of holders) budget.tryTake(1, holder);
  for (const owner of ['a', 'b']) budget.tryTake(450, owner);
  const release = budget.tryTake(10, 'c')!;
  for (const holder of holders) void budget.take(40, holder);
  let isServed = false;
  void budget.take(30, 'd').then(() => {
    isServed = true;
  });
  release();
  await new Promise(setImmediate);
  expect(isServed).toBe(true);
});

test('many requests of one owner do not hide those of others', async () => {
  const budget = createByteBudget(100);
  budget.tryTake(40, 'a');
  budget.tryTake(50, 'b');
  const release = budget.tryTake(10, 'c')!;
  for (let n = 0; n < 1_000; n++) void budget.take(30, 'a');
  let isServed = false;
  const served = budget.take(10, 'd').then(() => {
    isServed = true;
  });
  release();
  await Promise.race([served, new Promise(setImmediate)]);
  expect(isServed).toBe(true);
});

test('a request leaves the queue when its signal is aborted', async () => {
  const budget = createByteBudget(100);
  const release = budget.tryTake(100)!;
  const stop = new AbortController();
  const waiting = budget.take(10, 'a', stop.signal);
  stop.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');
  release();
  expect(budget.used).toBe(0);
  await expect(budget.take(1, 'a', stop.signal)).rejects.toThrow('enough');
});

test('at most the total is held, amounts above half of it aside, and every request is served', async () => {
  const request = fc.record({
    owner: fc.constantFrom('a', 'b', 'c'),
    bytes: fc.integer({ min: 1, max: 50 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(request, { maxLength: 60 }), async (requests) => {
      const budget = createByteBudget(100);
      let served = 0;
      await Promise.all(
        requests.map(async ({ owner, bytes }) => {
          const release = await budget.take(bytes, owner);
          expect(budget.used).toBeLessThanOrEqual(100);
          await Promise.resolve();
          release();
          served += 1;
        }),
      );
      expect(served).toBe(requests.length);
      expect(budget.used).toBe(0);
    }),
  );
});
