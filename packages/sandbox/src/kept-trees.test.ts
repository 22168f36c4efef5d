import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createKeptTrees } from './kept-trees.ts';

const MB = 1024 * 1024;

test('trees that take much together are not kept, the least recently used first', async () => {
  await using directory = await tempDir();
  const kept = join(directory.path, 'kept');
  mkdirSync(kept);
  const trees = createKeptTrees(kept, () => Number.POSITIVE_INFINITY);
  const made: string[] = [];
  const place = (user: string, set: string) => {
    const path = join(directory.path, user);
    return trees.place(user, set, path, 'u_test', async (take) => {
      take(100 * MB);
      made.push(set);
      mkdirSync(join(path, set), { recursive: true });
    });
  };
  for (const set of ['a', 'b', 'c']) {
    await place(set, set);
    trees.keep(set);
  }
  await eventually(() => readdirSync(kept).length === 2);
  for (const set of ['c', 'b', 'a']) await place(`next-${set}`, set);
  expect(made).toEqual(['a', 'b', 'c', 'a']);
});
