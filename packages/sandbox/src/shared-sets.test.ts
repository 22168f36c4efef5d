import { expect, test } from '@jest/globals';
import { createSharedSets, type SetOwner } from './shared-sets.ts';
import { createTurns, inTurnsOf } from './turns.ts';

const ownerOf = (id: string): SetOwner => ({ id, inTurns: inTurnsOf(createTurns(), id) });
const owner = ownerOf('u_test');
const MB = 1024 * 1024;

/** @param bytes that each directory takes */
function openSets(bytes = 0) {
  const removed: string[] = [];
  const gone = new Set<string>();
  /** Bytes that the owner of each directory held before. */
  const heldBefore: number[] = [];
  let made = 0;
  const sets = createSharedSets({
    async make(source, _, held) {
      heldBefore.push(held);
      return { name: `${source}#${made++}`, bytes };
    },
    remove: (name) => void removed.push(name),
    isPresent: (source) => !gone.has(source),
  });
  return { sets, removed, gone, heldBefore };
}

test('a directory is created once for all its users', async () => {
  const { sets } = openSets();
  expect(await Promise.all([sets.use('a', 'ms', owner), sets.use('b', 'ms', owner)])).toEqual([
    'ms#0',
    'ms#0',
  ]);
  sets.release('a');
  sets.release('b');
  expect(await sets.use('c', 'ms', owner)).toBe('ms#0');
});

test('the least recently used of the unused directories are removed', async () => {
  const { sets, removed } = openSets();
  await sets.use('lasting', 'kept', owner);
  for (let n = 0; n < 200; n += 1) {
    await sets.use(`user-${n}`, `source-${n}`, owner);
    sets.release(`user-${n}`);
  }
  await Promise.resolve();
  expect(removed).toHaveLength(200 - 64);
  expect(removed[0]).toBe('source-0#1');
  expect(removed).not.toContain('kept#0');
  expect(await sets.use('again', 'source-199', owner)).toBe('source-199#200');
  expect(await sets.use('anew', 'source-0', owner)).toBe('source-0#201');
});

test('a directory is created again after a failure', async () => {
  let attempts = 0;
  const sets = createSharedSets({
    async make() {
      attempts += 1;
      if (attempts === 1) throw new Error('no space');
      return { name: 'made', bytes: 0 };
    },
    remove() {},
    isPresent: () => true,
  });
  await expect(sets.use('a', 'ms', owner)).rejects.toThrow('no space');
  sets.release('a');
  expect(await sets.use('b', 'ms', owner)).toBe('made');
});

test('unused directories take a limited number of bytes, used ones stay', async () => {
  const { sets, removed } = openSets(200 * MB);
  await sets.use('lasting', 'kept', owner);
  for (const name of ['a', 'b', 'c', 'd']) {
    await sets.use(name, name, owner);
    sets.release(name);
  }
  await Promise.resolve();
  expect(removed).toEqual(['a#1', 'b#2']);
});

test('the bytes of an owner are those of the directories that were created for it', async () => {
  const { sets, heldBefore } = openSets(200 * MB);
  await sets.use('1', 'a', ownerOf('first'));
  await sets.use('2', 'b', ownerOf('first'));
  await sets.use('3', 'c', ownerOf('second'));
  // It exists already.
  await sets.use('4', 'a', ownerOf('second'));
  await sets.use('5', 'd', ownerOf('second'));
  await sets.use('6', 'e', ownerOf('first'));
  expect(heldBefore).toEqual([0, 200 * MB, 0, 200 * MB, 400 * MB]);
});

test('an unused directory whose source was removed does not stay', async () => {
  const { sets, removed, gone } = openSets();
  await sets.use('1', 'a', owner);
  await sets.use('2', 'b', owner);
  sets.release('1');
  gone.add('a');
  sets.release('2');
  await Promise.resolve();
  expect(removed).toEqual(['a#0']);
});
