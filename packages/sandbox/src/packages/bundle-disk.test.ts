import { existsSync, readdirSync, readFileSync, statSync, truncateSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createBundleDisk } from './bundle-disk.ts';

const MB = 1024 * 1024;
const CODE = 'x'.repeat(MB);
const NOW = 1_800_000_000_000;

/** A disk of 100 MB. */
async function openDisk() {
  const directory = await tempDir();
  const bytesOf = (owner: string) => {
    const path = join(directory.path, owner);
    return readdirSync(path).reduce((sum, name) => sum + statSync(join(path, name)).size, 0);
  };
  const free = () => readdirSync(directory.path).reduce((left, owner) => left - bytesOf(owner), 100 * MB);
  const create = () => createBundleDisk(directory.path, () => NOW, free);
  let disk = create();
  let writes = 0;
  return {
    ...directory,
    bytesOf,
    free,
    restart() {
      disk = create();
    },
    /** Writes 1 MB that was last used some seconds ago, but after what was written before. */
    async write(owner: string, name: string, secondsAgo = 3600) {
      const path = await disk.write(owner, name, CODE);
      writes += 1;
      const seconds = NOW / 1000 - secondsAgo + writes / 1000;
      utimesSync(path, seconds, seconds);
      return path;
    },
  };
}

test('the bundles of an owner take at most a quarter of what stays free; those of others are not removed', async () => {
  await using disk = await openDisk();
  const other = await disk.write('other', 'a.mjs');
  const paths: string[] = [];
  for (let n = 0; n < 100; n += 1) {
    paths.push(await disk.write('attacker', `${n}.mjs`));
    expect(disk.bytesOf('attacker')).toBeLessThanOrEqual(disk.free() / 4 + MB);
    if (n === 50) disk.restart();
  }
  expect(disk.bytesOf('attacker')).toBeGreaterThan(8 * MB);
  expect(existsSync(other)).toBe(true);
  // The latest ones are left.
  expect(paths.filter(existsSync)).toEqual(paths.slice(-disk.bytesOf('attacker') / MB));
});

test('a bundle that was written for a process that starts stays, however many there are', async () => {
  await using disk = await openDisk();
  const old = await disk.write('one', 'old.mjs');
  const paths: string[] = [];
  for (let n = 0; n < 40; n += 1) paths.push(await disk.write('one', `${n}.mjs`, 10));
  expect(paths.filter(existsSync)).toEqual(paths);
  expect(existsSync(old)).toBe(false);
});

test('code is written unchanged, also where its pieces end within a surrogate pair', async () => {
  await using disk = await openDisk();
  for (const before of ['', 'x']) {
    const code = before + '\u{1f4a7}'.repeat(400_000);
    const path = await createBundleDisk(disk.path, () => NOW).write('a', `code${before}`, code);
    expect(readFileSync(path, 'utf8') === code).toBe(true);
  }
});

test('what has lost its content is written again', async () => {
  await using disk = await openDisk();
  const path = await disk.write('one', 'first.mjs');
  truncateSync(path);
  disk.restart();
  expect(await disk.write('one', 'first.mjs')).toBe(path);
  expect(statSync(path).size).toBe(MB);
});

test('what was removed is written again', async () => {
  await using disk = await openDisk();
  const first = await disk.write('one', 'first.mjs');
  for (let n = 0; n < 40; n += 1) await disk.write('one', `${n}.mjs`);
  expect(existsSync(first)).toBe(false);
  expect(await disk.write('one', 'first.mjs')).toBe(first);
  expect(statSync(first).size).toBe(MB);
});
