import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createDiskRoom } from '../disk-room.ts';
import { receiveTree } from './receive-tree.ts';

const plenty = () =>
  createDiskRoom(
    () => 0,
    () => Number.POSITIVE_INFINITY,
  );

test('directories count like files', async () => {
  await using directory = await tempDir();
  const tree = receiveTree(directory.path, plenty(), 10);
  const receive = (path: string) => tree.header({ type: 'file', path, size: 0 });
  // Four directories and two files, then one of each.
  receive('a/b/c/d/file');
  receive('a/b/c/d/other');
  receive('e/file');
  receive('file');
  expect(() => receive('f/g/file')).toThrow('The packages have more than 10 files and directories.');
  tree.close();
  // The directory f was the tenth.
  expect(readdirSync(directory.path).sort()).toEqual(['a', 'e', 'f', 'file']);
});

test('a path cannot leave the directory', async () => {
  await using directory = await tempDir();
  const tree = receiveTree(directory.path, plenty());
  for (const path of ['../x', '/x', 'a/../../x', 'a//x', './x', 'x\0', `${'a/'.repeat(64)}x`])
    expect(() => tree.header({ type: 'file', path, size: 0 })).toThrow('a path that is not allowed');
  tree.close();
  expect(existsSync(join(directory.path, '../x'))).toBe(false);
  expect(readdirSync(directory.path)).toEqual([]);
});

test('files count with the blocks that they take on disk', async () => {
  await using directory = await tempDir();
  const free = 40 * 4096;
  const tree = receiveTree(
    directory.path,
    createDiskRoom(
      () => 0,
      () => free,
    ),
  );
  const receive = (path: string) => tree.header({ type: 'file', path, size: 1 });
  // Twenty blocks with the directory, and as many stay free.
  for (let n = 0; n < 19; n += 1) receive(`package/${n}`);
  expect(() => receive('package/19')).toThrow('There is no room for these packages');
  tree.close();
  expect(readdirSync(join(directory.path, 'package'))).toHaveLength(19);
});
