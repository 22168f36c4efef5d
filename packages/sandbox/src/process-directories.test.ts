import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
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

test('a process that cannot have a user id, or a directory, leaves neither behind', () => {
  const used = new Set<number>();
  const userIds = {
    allocate() {
      if (used.size === 1) throw new Error('All user ids are in use.');
      used.add(1);
      return 1;
    },
    release: (id: number) => void used.delete(id),
  };
  const directories = createProcessDirectories(dirs[0]!.path, userIds);
  const base = dirname(directories.shared);
  const empty = readdirSync(base);
  const { path } = directories.create();
  expect(() => directories.create()).toThrow('in use');
  expect(readdirSync(base).sort()).toEqual([...empty, basename(path)].sort());

  used.clear();
  directories.close();
  writeFileSync(base, 'not a directory');
  expect(() => directories.create()).toThrow();
  expect(used.size).toBe(0);
  rmSync(base);
});

/**
 * Process directories, and sets of packages with these names.
 * @param free bytes that trees of packages may still take
 */
function openDirectories(names: string[], free?: () => number) {
  const data = dirs[0]!.path;
  const indexOf = (name: string) => join(data, name, 'package/index.js');
  for (const name of names) {
    mkdirSync(dirname(indexOf(name)), { recursive: true });
    writeFileSync(indexOf(name), name);
  }
  writeFileSync(join(data, 'code.mjs'), '');
  const directories = createProcessDirectories(data, undefined, undefined, free);
  return {
    directories,
    /** @param visible whether processes see the directory of package sets, so that they have no trees */
    async start(
      name: string,
      { visible = false, inTurns = inTurnsOf(createTurns(), 'u_test'), owner = 'u_test' } = {},
    ) {
      const directory = directories.create();
      const files = {
        path: join(data, 'code.mjs'),
        name: 'code.mjs',
        format: 'esm' as const,
        nodeModules: join(data, name),
      };
      const visiblePackages = visible ? directories.packages : undefined;
      await directories.fill(directory, files, visiblePackages, { id: owner, inTurns });
      return directory;
    },
    removePackages: (name: string) => rmSync(join(data, name), { recursive: true }),
    /** How often a file of these packages is on disk. */
    linksOf: (name: string) => statSync(indexOf(name)).nlink,
  };
}

test('the tree of packages of a process that has ended is that of the next process with the same packages', async () => {
  const { directories, start } = openDirectories(['a', 'b']);
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
  const { directories, start, removePackages } = openDirectories(['a']);
  const directory = await start('a');
  const kept = () => readdirSync(join(dirname(directories.packages), 'trees'));
  removePackages('a');
  directories.remove(directory);
  await eventually(() => kept().length === 0);
  directories.close();
});

const OTHERS = Array.from({ length: 65 }, (_, n) => `other-${n}`);

test('a kept tree is removed with the set of packages that it belongs to', async () => {
  const { directories, start, linksOf } = openDirectories(['a', ...OTHERS]);
  directories.remove(await start('a'));
  // The set and the tree.
  expect(linksOf('a')).toBe(3);
  for (const name of OTHERS) directories.remove(await start(name, { visible: true }));
  await eventually(() => linksOf('a') === 1);
  directories.close();
});

test('the set of packages of a process with a kept tree is in use', async () => {
  const { directories, start, linksOf } = openDirectories(['a', ...OTHERS]);
  directories.remove(await start('a'));
  await start('a');
  for (const name of OTHERS) directories.remove(await start(name));
  await eventually(() => linksOf('other-0') === 1);
  expect(linksOf('a')).toBe(3);
  directories.close();
});

test('packages that are removed while they are linked are not given to a process', async () => {
  const { directories, start, removePackages } = openDirectories(['a']);
  const inTurns = async (work: (deadline: number) => boolean) => {
    work(Number.POSITIVE_INFINITY);
    removePackages('a');
  };
  await expect(start('a', { inTurns })).rejects.toThrow('The packages were removed');
  directories.close();
});

test('an owner leaves as much room as the directories of its trees take', async () => {
  // A tree has two directories.
  const { directories, start } = openDirectories(['a'], () => 8 * 4096);
  const [first] = [await start('a'), await start('a'), await start('a')];
  await expect(start('a')).rejects.toThrow('There is no room for these packages');
  await start('a', { owner: 'u_other' });
  directories.remove(first!);
  await start('a');
  await expect(start('a')).rejects.toThrow('There is no room for these packages');
  directories.close();
});
