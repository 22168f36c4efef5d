import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { lockDirectory } from './lock.ts';

test('a directory has one lock holder at a time', async () => {
  await using directory = await tempDir();
  const path = join(directory.path, 'data');
  const release = lockDirectory(path);
  expect(() => lockDirectory(path)).toThrow(`The data directory ${path} is in use by another process.`);
  release();
  lockDirectory(path)();
});

test('another process is refused, also after a garbage collection, and a killed one leaves no lock', async () => {
  await using directory = await tempDir();
  const holder = `
    import { lockDirectory } from ${JSON.stringify(import.meta.resolve('./lock.ts'))};
    lockDirectory(${JSON.stringify(directory.path)});
    gc();
    process.stdout.write('held');
    process.stdin.resume();`;
  const child = spawn(process.execPath, ['--expose-gc', '--input-type=module', '-e', holder], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  expect(() => lockDirectory(directory.path)).toThrow('in use by another process');
  child.kill('SIGKILL');
  // Its streams may close after its exit.
  await once(child, 'close');
  lockDirectory(directory.path)();
});
