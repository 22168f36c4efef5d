import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { expect, test } from '@jest/globals';
import { tempDir } from '@wellspring/testing/temp-dir';
import { bundleProgram } from './bundle-program.ts';

const USER = 54_321;
const testAsRoot = process.getuid?.() === 0 ? test : test.skip;

testAsRoot('a directory is removed after another user has removed its files from it', async () => {
  await using directory = await tempDir();
  chmodSync(directory.path, 0o755);
  const program = join(directory.path, 'remove.mjs');
  const entry = join(directory.path, 'entry.ts');
  writeFileSync(
    entry,
    `import { rm } from 'node:fs/promises';
     import { removeTree } from ${JSON.stringify(fileURLToPath(new URL('./remove-tree.ts', import.meta.url)))};
     // The timers of removeTree do not keep a process alive.
     setInterval(() => {}, 1000);
     const removed = removeTree(process.argv[2]);
     await rm(process.argv[2], { recursive: true }).catch(({ code }) => console.log(code));
     await removed;
     process.exit();`,
  );
  await bundleProgram(pathToFileURL(entry), program, { format: 'esm' });
  chmodSync(program, 0o644);
  const parent = join(directory.path, 'user');
  const tree = join(parent, 'tree');
  const foreign = join(tree, 'foreign');
  for (const path of [parent, tree, foreign]) mkdirSync(path);
  for (const path of [parent, tree]) chownSync(path, USER, USER);
  writeFileSync(join(foreign, 'file'), '');
  chmodSync(foreign, 0o700);
  const child = spawn(process.execPath, [program, tree], {
    uid: USER,
    gid: USER,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  expect(String(await once(child.stdout, 'data'))).toBe('EACCES\n');
  rmSync(foreign, { recursive: true });
  expect(await ended).toEqual([0, null]);
  expect(existsSync(tree)).toBe(false);
});
