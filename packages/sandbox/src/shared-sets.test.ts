import { expect, test } from '@jest/globals';
import { createSharedSets } from './shared-sets.ts';
import { createTurns, inTurnsOf } from './turns.ts';

const inTurns = inTurnsOf(createTurns(), 'u_test');

function openSets() {
  const removed: string[] = [];
  let made = 0;
  const sets = createSharedSets(
    async (source) => `${source}#${made++}`,
    (name) => void removed.push(name),
  );
  return { sets, removed };
}

test('a directory is created once for all its users', async () => {
  const { sets } = openSets();
  expect(await Promise.all([sets.use('a', 'ms', inTurns), sets.use('b', 'ms', inTurns)])).toEqual([
    'ms#0',
    'ms#0',
  ]);
  sets.release('a');
  sets.release('b');
  expect(await sets.use('c', 'ms', inTurns)).toBe('ms#0');
});

test('the least recently used of the unused directories are removed', async () => {
  const { sets, removed } = openSets();
  await sets.use('lasting', 'kept', inTurns);
  for (let n = 0; n < 200; n += 1) {
    await sets.use(`user-${n}`, `source-${n}`, inTurns);
    sets.release(`user-${n}`);
  }
  await Promise.resolve();
  expect(removed).toHaveLength(200 - 64);
  expect(removed[0]).toBe('source-0#1');
  expect(removed).not.toContain('kept#0');
  expect(await sets.use('again', 'source-199', inTurns)).toBe('source-199#200');
  expect(await sets.use('anew', 'source-0', inTurns)).toBe('source-0#201');
});

test('a directory is created again after a failure', async () => {
  let attempts = 0;
  const sets = createSharedSets(
    async () => {
      attempts += 1;
      if (attempts === 1) throw new Error('no space');
      return 'made';
    },
    () => {},
  );
  await expect(sets.use('a', 'ms', inTurns)).rejects.toThrow('no space');
  sets.release('a');
  expect(await sets.use('b', 'ms', inTurns)).toBe('made');
});
