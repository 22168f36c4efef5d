import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { createProcessDirectories, type ProcessDirectory } from './process-directories.ts';
import { createTurns, inTurnsOf } from './turns.ts';

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

test('the tree of packages of a process that has ended is that of the next process with the same packages', async () => {
  const data = dirs[0]!.path;
  const owner = { id: 'u_test', inTurns: inTurnsOf(createTurns(), 'u_test') };
  for (const name of ['a', 'b']) {
    mkdirSync(join(data, name, 'package'), { recursive: true });
    writeFileSync(join(data, name, 'package/index.js'), name);
  }
  writeFileSync(join(data, 'code.mjs'), '');
  const directories = createProcessDirectories(data, undefined);
  const start = async (packages: string) => {
    const directory = directories.create();
    const files = {
      path: join(data, 'code.mjs'),
      name: 'code.mjs',
      format: 'esm' as const,
      nodeModules: join(data, packages),
    };
    await directories.fill(directory, files, undefined, owner);
    return directory;
  };
  const has = ({ app }: ProcessDirectory, name: string) => existsSync(join(app, 'node_modules', name));
  const first = await start('a');
  const other = await start('a');
  writeFileSync(join(first.app, 'node_modules/first'), '');
  expect([has(first, 'package/index.js'), has(other, 'package/index.js')]).toEqual([true, true]);
  directories.remove(first);
  expect(has(await start('b'), 'first')).toBe(false);
  const next = await start('a');
  expect([has(next, 'first'), has(next, 'package/index.js')]).toEqual([true, true]);
  // Its tree belongs to it alone.
  expect(has(await start('a'), 'first')).toBe(false);
  directories.close();
});

test('a tree of removed packages is not kept, since it would keep their files on disk', async () => {
  const data = dirs[0]!.path;
  mkdirSync(join(data, 'a/package'), { recursive: true });
  writeFileSync(join(data, 'code.mjs'), '');
  const directories = createProcessDirectories(data, undefined);
  const directory = directories.create();
  const files = {
    path: join(data, 'code.mjs'),
    name: 'code.mjs',
    format: 'esm' as const,
    nodeModules: join(data, 'a'),
  };
  const owner = { id: 'u_test', inTurns: inTurnsOf(createTurns(), 'u_test') };
  await directories.fill(directory, files, undefined, owner);
  const kept = () => readdirSync(join(dirname(directories.packages), 'trees'));
  rmSync(join(data, 'a'), { recursive: true });
  directories.remove(directory);
  await eventually(() => kept().length === 0);
  directories.close();
});

test('packages that are removed while they are linked are not given to a process', async () => {
  const data = dirs[0]!.path;
  mkdirSync(join(data, 'a/package'), { recursive: true });
  writeFileSync(join(data, 'code.mjs'), '');
  const directories = createProcessDirectories(data, undefined);
  const files = {
    path: join(data, 'code.mjs'),
    name: 'code.mjs',
    format: 'esm' as const,
    nodeModules: join(data, 'a'),
  };
  const inTurns = async (work: (deadline: number) => boolean) => {
    work(Number.POSITIVE_INFINITY);
    rmSync(join(data, 'a'), { recursive: true });
  };
  const filled = directories.fill(directories.create(), files, directories.packages, {
    id: 'u_test',
    inTurns,
  });
  await expect(filled).rejects.toThrow('The packages were removed');
  directories.close();
});
