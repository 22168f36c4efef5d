import { expect, test } from '@jest/globals';
import { numbers } from '@wellspring/testing/numbers';
import { createBusyChecks } from './busy-checks.ts';

test('many busy processes are checked in several turns of the event loop, until none is busy', async () => {
  const checkedIn: number[] = [];
  let turns = 0;
  const busy = new Set(
    numbers(100).map(() => ({ child: { check: async () => void checkedIn.push(turns) } })),
  );
  const rounds = Promise.withResolvers<void>();
  let ended = 0;
  const checks = createBusyChecks(busy, () => {
    ended += 1;
    if (ended < 2) return;
    busy.clear();
    rounds.resolve();
  });
  checks.start();
  checks.start();
  const count = () => {
    turns += 1;
    if (ended < 2) setImmediate(count);
  };
  count();
  await rounds.promise;
  expect(checkedIn).toHaveLength(200);
  const ofEachTurn = Map.groupBy(checkedIn, (n) => n);
  for (const one of ofEachTurn.values()) expect(one.length).toBeLessThanOrEqual(16);
  expect(ended).toBe(2);
});

test('a round ends, though processes become idle and busy during it', async () => {
  const ended = Promise.withResolvers<void>();
  let checked = 0;
  const busy = new Set<{ child: { check(): Promise<void> } }>();
  for (const _ of numbers(20)) {
    const one = {
      child: {
        async check() {
          checked += 1;
          busy.delete(one);
          busy.add(one);
        },
      },
    };
    busy.add(one);
  }
  const checks = createBusyChecks(busy, () => {
    busy.clear();
    ended.resolve();
  });
  checks.start();
  await ended.promise;
  expect(checked).toBe(20);
});

test('a process that becomes busy after a pause is checked', async () => {
  const busy = new Set<{ child: { check(): Promise<void> } }>();
  const checks = createBusyChecks(busy, () => {});
  for (const _ of numbers(2)) {
    const checked = Promise.withResolvers<void>();
    const one = { child: { check: async () => checked.resolve() } };
    busy.add(one);
    checks.start();
    await checked.promise;
    busy.delete(one);
  }
  checks.close();
});
