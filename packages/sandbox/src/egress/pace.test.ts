import { setImmediate } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { createPace } from './pace.ts';
import { echo, isServed, openRelay, serve } from './relay.fixture.ts';

const KB = 1024;

test('connections of an owner that pass on much continue in order in later turns, those of others at once', async () => {
  const pace = createPace(128 * KB);
  const resumed: number[] = [];
  const pass = (n: number) => pace.pass('much', 64 * KB, () => resumed.push(n));
  expect([1, 2, 3, 4, 5].map(pass)).toEqual([false, true, true, true, true]);
  expect(pace.pass('little', 64 * KB, () => {})).toBe(false);
  expect(resumed).toEqual([]);
  await setImmediate();
  expect(resumed).toEqual([2, 3]);
  // Their next bytes count for the new turn.
  expect([2, 3].map(pass)).toEqual([false, true]);
  await setImmediate();
  expect(resumed).toEqual([2, 3, 4, 5]);
  await setImmediate();
  expect(resumed).toEqual([2, 3, 4, 5, 3]);
  await setImmediate();
  expect(pass(6)).toBe(false);
});

test('a small chunk counts for more than its bytes, since it takes as long', () => {
  const pace = createPace(128 * KB);
  const passed = Array.from({ length: 100 }, () => pace.pass('tiny', 1, () => {}));
  expect(passed.indexOf(true)).toBeLessThan(70);
  expect(pace.pass('other', 1, () => {})).toBe(false);
});

test('one owner that sends much does not hold up the network of others', async () => {
  let received = 0;
  await using sink = await serve((socket) => socket.on('data', ({ length }) => (received += length)));
  await using server = await serve(echo);
  await using relay = await openRelay();
  const [attacker, other] = [await relay.client('a', 'attacker'), await relay.client('b', 'other')];
  const dialled = await Promise.all(Array.from({ length: 40 }, () => attacker.dial('127.0.0.1', sink.port)));
  const much = Buffer.alloc(2_000 * KB);
  for (const { socket } of dialled) socket.end(much);
  await isServed(other, server.port);
  expect(received).toBeLessThan(20_000 * KB);
});
