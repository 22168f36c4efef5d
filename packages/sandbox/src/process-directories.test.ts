import { existsSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { createProcessDirectories } from './process-directories.ts';

const before = process.cwd();
let dirs: TempDir[];

beforeEach(async () => {
  dirs = [await tempDir(), await tempDir()];
});

afterEach(async () => {
  process.chdir(before);
  for (const dir of dirs) await dir.remove();
});

test('platforms with the same relative data directory in two working directories do not empty each other', () => {
  const [first, second] = dirs.map(({ path }) => {
    process.chdir(path);
    const directories = createProcessDirectories('.wellspring', undefined);
    return { directories, directory: directories.create() };
  });
  expect(existsSync(first!.directory.app)).toBe(true);
  second!.directories.close();
  expect(existsSync(first!.directory.app)).toBe(true);
  expect(existsSync(first!.directories.create().tmp)).toBe(true);
  first!.directories.close();
  expect(existsSync(first!.directory.app)).toBe(false);
});

test('leftovers of a crash are removed at the next start with the same data directory', () => {
  const left = createProcessDirectories(dirs[0]!.path, undefined).create();
  const next = createProcessDirectories(dirs[0]!.path, undefined);
  expect(existsSync(left.path)).toBe(false);
  next.close();
});
