import { chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { tempDir } from '@wellspring/testing/temp-dir';
import { findCompiler, provideLauncher } from './compile-launcher.ts';
import { removeLeftovers } from './launcher-leftovers.ts';

const USER = 54_321;
// Only root may give a file to another user.
const testAsRoot = process.getuid?.() === 0 && findCompiler() !== undefined ? test : test.skip;

testAsRoot(
  'a launcher that does not end delays the start once, and is logged',
  async () => {
    await using directory = await tempDir();
    const [base, cache, calls] = ['base', 'cache', 'calls'].map((name) => join(directory.path, name)) as [
      string,
      string,
      string,
    ];
    for (const root of ['one', 'two', 'three']) {
      const file = join(base, root, 'tmp', 'file');
      mkdirSync(join(base, root, 'tmp'), { recursive: true });
      writeFileSync(file, '');
      chownSync(file, USER, USER);
    }
    writeFileSync(provideLauncher(cache), `#!/bin/sh\necho >> ${calls}\nexec /bin/sleep 60\n`);
    const logged: string[] = [];
    removeLeftovers(base, cache, { ...silentLog, warn: (_, event) => logged.push(event) }, 10_000);
    expect(readFileSync(calls, 'utf8')).toBe('\n');
    expect(logged).toEqual(['sandbox.leftovers_kept']);
    expect(existsSync(join(base, 'one', 'tmp', 'file'))).toBe(true);
  },
  30_000,
);
