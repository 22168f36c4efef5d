import { closeSync, ftruncateSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createCheckpoints } from './checkpoints.ts';

const MB = 1024 * 1024;

test('commits wait for the last pass only, and not for a thread that cannot work', async () => {
  await using directory = await tempDir();
  const log = openSync(join(directory.path, 'log'), 'w');
  const holdsOf = async (path: string, bytes: number) => {
    const holds: boolean[] = [];
    ftruncateSync(log, bytes);
    const checkpoints = createCheckpoints(path, (held) => holds.push(held));
    checkpoints.committed(log);
    await checkpoints.close();
    return holds;
  };
  expect(await holdsOf(join(directory.path, 'wellspring.db'), 17 * MB)).toEqual([true, false]);
  expect(await holdsOf(join(directory.path, 'wellspring.db'), MB)).toEqual([]);
  expect(await holdsOf(directory.path, 17 * MB)).toEqual([]);
  closeSync(log);
});
