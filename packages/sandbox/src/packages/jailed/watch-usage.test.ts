import { linkSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { holdsMoreThan, watchUsage } from './watch-usage.ts';

const MUCH = { bytes: 1e9, inodes: 1e6 };

test('files, directories and bytes at any depth are counted, the size of a file with two names once', async () => {
  await using directory = await tempDir();
  const below = (...path: string[]) => join(directory.path, ...path);
  mkdirSync(below('a/b/c'), { recursive: true });
  expect(await holdsMoreThan(directory.path, { ...MUCH, inodes: 3 })).toBe(false);
  expect(await holdsMoreThan(directory.path, { ...MUCH, inodes: 2 })).toBe(true);
  writeFileSync(below('a/b/c/file'), Buffer.alloc(4_000_000, 1));
  linkSync(below('a/b/c/file'), below('other'));
  expect(await holdsMoreThan(directory.path, { ...MUCH, bytes: 3_900_000 })).toBe(true);
  expect(await holdsMoreThan(directory.path, { ...MUCH, bytes: 4_200_000 })).toBe(false);
  expect(await holdsMoreThan(directory.path, { ...MUCH, inodes: 4 })).toBe(true);
});

test('a tree that is too deep to read counts as too large, a removed one does not', async () => {
  await using directory = await tempDir();
  const before = process.cwd();
  try {
    process.chdir(directory.path);
    for (let depth = 0; depth < 30; depth += 1) {
      mkdirSync('d'.repeat(200));
      process.chdir('d'.repeat(200));
    }
  } finally {
    process.chdir(before);
  }
  expect(await holdsMoreThan(directory.path, MUCH)).toBe(true);
  rmSync(directory.path, { recursive: true });
  expect(await holdsMoreThan(directory.path, MUCH)).toBe(false);
});

test('a directory is watched until it exceeds the limits or watching is stopped', async () => {
  await using directory = await tempDir();
  const stop = new AbortController();
  const [small, large] = [1, 2].map((inodes) => watchUsage(directory.path, { ...MUCH, inodes }, stop.signal));
  for (const name of ['a', 'b']) writeFileSync(join(directory.path, name), '');
  expect(await small).toBe(true);
  stop.abort();
  expect(await large).toBe(false);
});
