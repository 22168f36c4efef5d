import { closeSync, ftruncateSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { createCheckpoints } from './checkpoints.ts';

test('a log that cannot be cut fails no commit, and is not tried again with the next one', async () => {
  await using directory = await tempDir();
  const log = openSync(join(directory.path, 'log'), 'w');
  ftruncateSync(log, 257 * 1024 * 1024);
  let attempts = 0;
  const checkpoints = createCheckpoints(':memory:', () => {
    attempts += 1;
    throw new Error('database or disk is full');
  });
  checkpoints.committed(log);
  checkpoints.committed(log);
  expect(attempts).toBe(1);
  await checkpoints.close();
  closeSync(log);
});
