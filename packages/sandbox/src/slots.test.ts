import { existsSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { createSlots } from './slots.ts';

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
    const slots = createSlots('.wellspring', undefined);
    return { slots, slot: slots.create() };
  });
  expect(existsSync(first!.slot.app)).toBe(true);
  second!.slots.close();
  expect(existsSync(first!.slot.app)).toBe(true);
  expect(existsSync(first!.slots.create().tmp)).toBe(true);
  first!.slots.close();
  expect(existsSync(first!.slot.app)).toBe(false);
});

test('leftovers of a crash are removed at the next start with the same data directory', () => {
  const left = createSlots(dirs[0]!.path, undefined).create();
  const next = createSlots(dirs[0]!.path, undefined);
  expect(existsSync(left.path)).toBe(false);
  next.close();
});
