import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { receiveTree } from './receive-tree.ts';

test('directories count like files', async () => {
  await using directory = await tempDir();
  const tree = receiveTree(directory.path, 10);
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
  const tree = receiveTree(join(directory.path));
  for (const path of ['../x', '/x', 'a/../../x', 'a//x', './x', 'x\0', `${'a/'.repeat(64)}x`])
    expect(() => tree.header({ type: 'file', path, size: 0 })).toThrow('a path that is not allowed');
  tree.close();
  expect(existsSync(join(directory.path, '../x'))).toBe(false);
  expect(readdirSync(directory.path)).toEqual([]);
});
