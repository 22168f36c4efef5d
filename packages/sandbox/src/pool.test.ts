import { expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import type { Child } from './child-process.ts';
import { createPool, type Fresh } from './pool.ts';

/** Processes that become ready when the test says so. */
function starts() {
  const begun: PromiseWithResolvers<void>[] = [];
  const spawn = (): Fresh => {
    const ready = Promise.withResolvers<void>();
    begun.push(ready);
    const child = { ready: ready.promise, usable: true, kill() {} } as unknown as Child;
    return { child, slot: {} as Fresh['slot'] };
  };
  return { begun, spawn };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('an owner that asks for hundreds of processes has half of the starts, and another owner starts at once', async () => {
  const { begun, spawn } = starts();
  const pool = createPool(spawn, 0, silentLog, 8);
  const taken: string[] = [];
  const take = (owner: string) => pool.take(owner).then(() => taken.push(owner));
  const all = Array.from({ length: 200 }, () => take('attacker'));
  await settled();
  expect(begun).toHaveLength(4);
  const victim = take('victim');
  await settled();
  expect(begun).toHaveLength(5);
  begun[4]!.resolve();
  await victim;
  expect(taken).toEqual(['victim']);
  for (let at = 0; at < 201; at++) {
    begun[at]?.resolve();
    await settled();
  }
  await Promise.all(all);
  expect(taken).toHaveLength(201);
  pool.close();
});

test('a process that does not start gives its place to the next one; closing rejects those that wait', async () => {
  const { begun, spawn } = starts();
  const pool = createPool(spawn, 0, silentLog, 8);
  const outcomes = Array.from({ length: 6 }, () => pool.take('one').then(() => 'ready', String));
  await settled();
  begun[0]!.reject(new Error('no memory'));
  await settled();
  expect(begun).toHaveLength(5);
  pool.close();
  for (const one of begun.slice(1)) one.resolve();
  expect(await Promise.all(outcomes)).toEqual([
    'Error: no memory',
    'ready',
    'ready',
    'ready',
    'ready',
    'Error: the sandbox is closed',
  ]);
});
