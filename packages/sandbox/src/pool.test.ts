import { expect, test } from '@jest/globals';
import { type Log, silentLog } from '@wellspring/core/log';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import type { Child } from './child.ts';
import { createPool, type UnusedProcess } from './pool.ts';

/** Processes that become ready on command of the test. */
function starts() {
  const begun: PromiseWithResolvers<void>[] = [];
  const start = async (): Promise<UnusedProcess> => {
    const ready = Promise.withResolvers<void>();
    begun.push(ready);
    const child = { ready: ready.promise, usable: true, kill() {} } as unknown as Child;
    return { child, directory: {} as UnusedProcess['directory'] };
  };
  return { begun, start };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('an owner that requests hundreds of processes gets half of the starts, and another owner does not wait', async () => {
  const { begun, start } = starts();
  const pool = createPool({ start, target: 0, clock: createFakeClock(), log: silentLog, processors: 4 });
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

test('a failed start releases its permit; closing rejects waiting requests', async () => {
  const { begun, start } = starts();
  const pool = createPool({ start, target: 0, clock: createFakeClock(), log: silentLog, processors: 4 });
  const outcomes = Array.from({ length: 6 }, () => pool.take('one').then(() => 'ready', String));
  await settled();
  begun[0]!.reject(new Error('no memory'));
  await settled();
  expect(begun).toHaveLength(5);
  pool.close();
  for (const one of begun.slice(1)) one.resolve();
  expect(await Promise.all(outcomes)).toEqual([
    'Unavailable: No sandbox process can be started: no memory',
    'ready',
    'ready',
    'ready',
    'ready',
    'Unavailable: The sandbox is closed.',
  ]);
});

/** A log that records its lines. */
function recordingLog() {
  const lines: [event: string, fields: object][] = [];
  const keep = (fields: object, event: string) => void lines.push([event, fields]);
  const log: Log = { debug: keep, info: keep, warn: keep, error: keep };
  return { lines, log };
}

test('failed starts are retried with backoff, one at a time, and logged once', async () => {
  const { begun, start } = starts();
  const clock = createFakeClock(0);
  const { lines, log } = recordingLog();
  const pool = createPool({ start, target: 2, processors: 2, clock, log });
  expect(begun).toHaveLength(2);
  begun[0]!.reject(new Error('refused'));
  begun[1]!.reject(new Error('refused'));
  const wakings: number[] = [];
  for (let at = 2; at < 12; at++) {
    await clock.asleep();
    await settled();
    wakings.push(clock.wakings()[0]! - clock.now());
    expect(begun).toHaveLength(at);
    await clock.advance(wakings.at(-1)!);
    await settled();
    begun[at]!.reject(new Error('refused'));
  }
  expect(wakings).toEqual([100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000]);
  expect(lines).toEqual([
    ['sandbox.start_failed', { error: 'Unavailable: No sandbox process can be started: refused' }],
  ]);

  await clock.asleep();
  await clock.advance(30_000);
  begun[12]!.resolve();
  await settled();
  expect(lines[1]).toEqual(['sandbox.start_succeeded', { failures: 11 }]);
  begun[13]!.resolve();
  await settled();
  expect([pool.size, begun.length, lines.length]).toEqual([2, 14, 2]);
  pool.close();
});

test('an error of `start` counts as a failed start; closing ends the backoff', async () => {
  const clock = createFakeClock();
  const { lines, log } = recordingLog();
  const start = () => {
    throw new Error('no space left on device');
  };
  const pool = createPool({ start, target: 1, processors: 2, clock, log });
  await clock.asleep();
  expect(lines).toEqual([
    [
      'sandbox.start_failed',
      { error: 'Unavailable: No sandbox process can be started: no space left on device' },
    ],
  ]);
  // Not a fault of the call, which is repeated without limit.
  await expect(pool.take('one')).rejects.toMatchObject({
    name: 'Unavailable',
    message: 'No sandbox process can be started: no space left on device',
    cause: { message: 'no space left on device' },
  });
  pool.close();
  await settled();
  expect(clock.wakings()).toEqual([]);
});

test.each([
  [0.5, 1, 2],
  [1, 1, 2],
  [4, 2, 8],
])(
  'on %p processors %p processes start in advance, and %p that are needed',
  async (processors, ahead, needed) => {
    const { begun, start } = starts();
    const pool = createPool({ start, target: 16, processors, clock: createFakeClock(), log: silentLog });
    expect(begun).toHaveLength(ahead);
    const taken = Array.from({ length: 16 }, (_, n) => pool.take(`owner ${n}`).catch(() => {}));
    await settled();
    expect(begun).toHaveLength(ahead + needed);
    pool.close();
    for (const { resolve } of begun) resolve();
    await Promise.all(taken);
  },
);

test('processes are started in advance without preloading while the processors are overloaded', async () => {
  const preloads: boolean[] = [];
  const { begun, start } = starts();
  let isOverloaded = true;
  const pool = createPool({
    start(preload) {
      preloads.push(preload);
      return start();
    },
    target: 3,
    processors: 2,
    clock: createFakeClock(),
    log: silentLog,
    isOverloaded: () => isOverloaded,
  });
  expect(preloads).toEqual([false, false]);
  isOverloaded = false;
  begun[0]!.resolve();
  await settled();
  expect(preloads).toEqual([false, false, true]);
  pool.close();
});
