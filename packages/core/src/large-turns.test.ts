import { expect, test } from '@jest/globals';
import { createLargeTurns } from './large-turns.ts';

const LARGE = 1024 * 1024;

/** Turns on a clock that stands still, with the rests that are due. */
function open() {
  const clock = { now: 0, rests: [] as { at: number; end: () => void }[] };
  const turns = createLargeTurns({
    smallBytes: 64 * 1024,
    now: () => clock.now,
    after: (ms, end) => void clock.rests.push({ at: clock.now + ms, end }),
  });
  const begun: string[] = [];
  /** Takes `ms`. */
  const work = (owner: string, ms: number, bytes = LARGE) =>
    turns.run(owner, bytes, async () => {
      begun.push(owner);
      clock.now += ms;
    });
  return { clock, turns, begun, work };
}

test('an owner rests for three times the time of its large work, at most 10 s; others do not wait for it', async () => {
  const { clock, begun, work } = open();
  await work('u_a', 100);
  const second = work('u_a', 100);
  await work('u_b', 10);
  await work('u_a', 1, 1024);
  expect(begun).toEqual(['u_a', 'u_b', 'u_a']);
  expect(clock.rests.map(({ at }) => at)).toEqual([400, 140]);
  clock.rests[0]!.end();
  await second;
  expect(begun).toEqual(['u_a', 'u_b', 'u_a', 'u_a']);
  await work('u_c', 60_000);
  expect(clock.rests.at(-1)!.at - clock.now).toBe(10_000);
});

test('work that fails gives its turn back, and so does a request that is aborted', async () => {
  const { clock, turns, work, begun } = open();
  const failing = turns.run('u_a', LARGE, () => Promise.reject(new Error('no JSON')));
  await expect(failing).rejects.toThrow('no JSON');
  const left = new AbortController();
  const waiting = turns.run('u_a', LARGE, async () => {}, left.signal);
  left.abort(new Error('left'));
  await expect(waiting).rejects.toThrow('left');
  clock.rests[0]!.end();
  await work('u_a', 1);
  expect(begun).toEqual(['u_a']);
});
