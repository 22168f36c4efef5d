import { existsSync, statSync, truncateSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { findCompiler, provideLauncher } from './compile-launcher.ts';

const isCompiled = findCompiler() !== undefined && !existsSync('/usr/local/lib/wellspring/launcher');

(isCompiled ? test : test.skip)('a launcher that has lost its content is compiled again', async () => {
  await using cache = await tempDir();
  const path = provideLauncher(cache.path);
  const { size } = statSync(path);
  truncateSync(path);
  expect(provideLauncher(cache.path)).toBe(path);
  expect(statSync(path).size).toBe(size);
});
