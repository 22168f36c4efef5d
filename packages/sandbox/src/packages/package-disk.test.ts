import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createPackageDisk } from './package-disk.ts';

const MB = 1024 * 1024;
const MINUTE_MS = 60_000;
const NOW = 1_800_000_000_000;

/** Sets and tarballs of 1 MB on a disk with these free bytes. */
async function openDisk(free: () => number) {
  const directory = await tempDir();
  const disk = createPackageDisk(directory.path, () => NOW, free);
  const paths = new Map<string, string>();
  async function put(path: string, minutesAgo: number, owner?: string): Promise<void> {
    const [full, seconds] = [join(directory.path, path), (NOW - minutesAgo * MINUTE_MS) / 1000];
    const file = owner === undefined ? full : join(full, 'node_modules', 'index.js');
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, Buffer.alloc(MB, 'x'));
    if (owner !== undefined) await disk.sign(full, owner);
    utimesSync(full, seconds, seconds);
    paths.set(path, full);
  }
  let opened = 0;
  return {
    ...directory,
    /** Space for an installation; each has a process of its own. */
    open(owner: string) {
      opened += 1;
      const process = createPackageDisk(directory.path, () => NOW, free);
      return process.open(owner, join(directory.path, `sets/${opened}.part`));
    },
    put,
    left: () => [...paths].filter(([, full]) => existsSync(full)).map(([path]) => path),
  };
}

test('the sets of an owner may take at most as much as stays free', async () => {
  let free = 100 * MB;
  await using t = await openDisk(() => free);
  for (let n = 0; n < 20; n += 1) await t.put(`sets/a${n}`, 0, 'attacker');
  await t.put('sets/b', 0, 'other');
  /** Writes as many megabytes as fit into a disk with 100 free ones. */
  async function fill(owner: string): Promise<number> {
    free = 100 * MB;
    const room = await t.open(owner);
    for (let megabytes = 0; megabytes < 100; megabytes += 1) {
      try {
        room.take(MB);
      } catch (error) {
        expect(error).toMatchObject({ status: 400, message: expect.stringContaining('no room') });
        expect(room.exceeded).toBe(error);
        return megabytes;
      }
      free -= MB;
    }
    return 100;
  }
  // 20 MB and about 39 MB leave 61 MB; 1 MB and about 49 MB leave 51 MB.
  expect([39, 40]).toContain(await fill('attacker'));
  expect([48, 49]).toContain(await fill('other'));
});

test('installations of an owner that run at the same time share what it may take', async () => {
  let free = 100 * MB;
  await using t = await openDisk(() => free);
  const rooms = await Promise.all(['a', 'a', 'a', 'b'].map(t.open));
  let taken = 0;
  expect(() => {
    for (let n = 0; ; n += 1) {
      rooms[n % 3]!.take(MB);
      [taken, free] = [taken + MB, free - MB];
    }
  }).toThrow('no room');
  // Each learns of the others every 8 MB. Without that, they would take three quarters.
  expect(taken / MB).toBeLessThan(65);
  expect(() => rooms[3]!.take(30 * MB)).not.toThrow();
});

test('what others write meanwhile is no longer free', async () => {
  let free = 1000 * MB;
  await using t = await openDisk(() => free);
  const room = await t.open('a');
  for (let n = 0; n < 10; n += 1) room.take(MB);
  free = 15 * MB;
  expect(() => {
    for (let n = 0; n < 10; n += 1) room.take(MB);
  }).toThrow('no room');
});

test('without room, tarballs are removed first, then own sets, then those of others, by their last use', async () => {
  let free = 0;
  await using t = await openDisk(() => free);
  await t.put('tarballs/new.tgz', 0);
  await t.put('tarballs/old.tgz', 90);
  await t.put('sets/own-used', 20, 'a');
  await t.put('sets/own-old', 60, 'a');
  await t.put('sets/own-older', 90, 'a');
  await t.put('sets/foreign-used', 300, 'b');
  await t.put('sets/foreign-old', 400, 'b');
  const all = t.left();
  const removedWith = async (bytes: number) => {
    free = bytes;
    await t.open('a');
    return all.filter((path) => !t.left().includes(path));
  };
  // The 3 MB of the owner and 1 GB for an installation.
  const enough = 1024 * MB + 3 * MB + 64 * 1024;
  expect(await removedWith(enough)).toEqual([]);
  expect(await removedWith(enough - MB)).toEqual(['tarballs/old.tgz']);
  expect(await removedWith(enough - 3 * MB)).toEqual([
    'tarballs/new.tgz',
    'tarballs/old.tgz',
    'sets/own-older',
  ]);
  expect(await removedWith(0)).toEqual([
    'tarballs/new.tgz',
    'tarballs/old.tgz',
    'sets/own-old',
    'sets/own-older',
    'sets/foreign-old',
  ]);
});

test('a set that is used while others are removed stays', async () => {
  let used = '';
  await using t = await openDisk(() => {
    if (used !== '') utimesSync(used, NOW / 1000, NOW / 1000);
    return 0;
  });
  for (const name of ['sets/a', 'sets/b']) await t.put(name, 90, 'a');
  used = join(t.path, 'sets/a');
  await t.open('a');
  expect(t.left()).toEqual(['sets/a']);
});

test('a set that is removed is never found in part', async () => {
  await using t = await openDisk(() => 0);
  await t.put('sets/a', 90, 'a');
  const packages = join(t.path, 'sets/a/node_modules');
  for (let n = 0; n < 200; n += 1) mkdirSync(join(packages, `package-${n}`));
  const all = readdirSync(packages).length;
  let opened = false;
  const opening = t.open('a').finally(() => {
    opened = true;
  });
  const found = new Set<number>();
  while (!opened) {
    try {
      found.add(readdirSync(packages).length);
    } catch {
      // It is gone.
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  await opening;
  expect([...found]).toEqual([all]);
  expect(readdirSync(join(t.path, 'sets'))).toEqual(['1.part']);
});
