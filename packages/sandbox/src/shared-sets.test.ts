import { expect, test } from '@jest/globals';
import { createSharedSets, type SetOwner } from './shared-sets.ts';
import { createTurns, inTurnsOf } from './turns.ts';

const ownerOf = (id: string): SetOwner => ({ id, inTurns: inTurnsOf(createTurns(), id) });
const owner = ownerOf('u_test');
const MB = 1024 * 1024;
const settled = () => new Promise((resolve) => setImmediate(resolve));

/**
 * @param bytes that each directory takes
 * @param disk bytes for directories
 */
function openSets(bytes = 0, disk = Number.POSITIVE_INFINITY) {
  let [written, mostWritten] = [0, 0];
  const removed: string[] = [];
  const gone = new Set<string>();
  let made = 0;
  const sets = createSharedSets({
    async make(source, _, take) {
      const name = `${source}#${made++}`;
      let taken = 0;
      try {
        for (; taken < bytes; taken += MB) {
          take(MB);
          written += MB;
          mostWritten = Math.max(mostWritten, written);
          // Others are created at the same time.
          await Promise.resolve();
        }
        return name;
      } catch (error) {
        written -= taken;
        throw error;
      }
    },
    async remove(name) {
      removed.push(name);
      written -= bytes;
    },
    isPresent: (source) => !gone.has(source),
    free: () => disk - written,
  });
  return { sets, removed, gone, mostWritten: () => mostWritten };
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
  await settled();
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
      return 'made';
    },
    async remove() {},
    isPresent: () => true,
    free: () => 0,
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
  await settled();
  expect(removed).toEqual(['a#1', 'b#2']);
});

test('the bytes of an owner are those of the directories that were created for it', async () => {
  const { sets } = openSets(200 * MB, 1500 * MB);
  const refused = (megabytes: number) => `those of their owner take ${megabytes} MB of the disk`;
  for (const name of ['a', 'b', 'c']) await sets.use(name, name, ownerOf('first'));
  await expect(sets.use('4', 'd', ownerOf('first'))).rejects.toThrow(refused(600));
  // It exists already.
  await sets.use('5', 'a', ownerOf('second'));
  for (const name of ['e', 'f']) await sets.use(name, name, ownerOf('second'));
  await expect(sets.use('8', 'g', ownerOf('second'))).rejects.toThrow(refused(400));
});

test('an owner that has many directories created at once gets no more than its share', async () => {
  const { sets, mostWritten } = openSets(200 * MB, 1000 * MB);
  const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
  await Promise.allSettled(names.map((name) => sets.use(name, name, ownerOf('first'))));
  // Each measures the free bytes after 8 MB of its own.
  expect(mostWritten()).toBeGreaterThan(400 * MB);
  expect(mostWritten()).toBeLessThan(500 * MB + 8 * 8 * MB);
});

test('a directory that is refused to one owner is created for another one that waits for it', async () => {
  const { sets } = openSets(200 * MB, 1000 * MB);
  for (const name of ['a', 'b']) await sets.use(name, name, ownerOf('first'));
  const both = [
    sets.use('1', 'common', ownerOf('first')),
    sets.use('2', 'common', ownerOf('first')),
    sets.use('3', 'common', ownerOf('second')),
    sets.use('4', 'common', ownerOf('third')),
  ];
  const message = expect.stringContaining('those of their owner take 400 MB');
  expect(await Promise.allSettled(both)).toEqual([
    { status: 'rejected', reason: expect.objectContaining({ message }) },
    { status: 'rejected', reason: expect.objectContaining({ message }) },
    { status: 'fulfilled', value: 'common#3' },
    { status: 'fulfilled', value: 'common#3' },
  ]);
});

test('without room, unused directories are removed first', async () => {
  const { sets, removed } = openSets(200 * MB, 700 * MB);
  for (const name of ['a', 'b']) await sets.use(name, name, ownerOf(name));
  sets.release('a');
  sets.release('b');
  expect(await sets.use('c', 'c', ownerOf('third'))).toBe('c#3');
  expect(removed).toEqual(['a#0', 'b#1']);
});

test('an unused directory whose source was removed does not stay', async () => {
  const { sets, removed, gone } = openSets();
  await sets.use('1', 'a', owner);
  await sets.use('2', 'b', owner);
  sets.release('1');
  gone.add('a');
  sets.release('2');
  await settled();
  expect(removed).toEqual(['a#0']);
});
