import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { watchResources } from './leaks.mjs';
import { tempDir } from './temp-dir.ts';

test('an open server is found, a closed one is not', async () => {
  const leaked = watchResources();
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  expect(await leaked(0)).toEqual(['TCPServerWrap']);
  server.close();
  expect(await leaked()).toEqual([]);
});

test('a child process is found until it has ended', async () => {
  const leaked = watchResources();
  const child = spawn(process.execPath, ['-e', 'process.stdin.resume()'], {
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  await once(child, 'spawn');
  expect(await leaked(0)).toContain('ProcessWrap');
  child.stdin.end();
  await once(child, 'exit');
  expect(await leaked()).toEqual([]);
});

test('the first output of a process into a pipe is not reported', async () => {
  const leaks = JSON.stringify(import.meta.resolve('./leaks.mjs'));
  const child = spawn(
    process.execPath,
    [
      '--input-type=module',
      '-e',
      `import { watchResources } from ${leaks};
      const leaked = watchResources();
      process.stderr.write('first');
      console.log(JSON.stringify(await leaked(0)));`,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  child.stderr.resume();
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  expect(JSON.parse(line)).toEqual([]);
  await once(child, 'close');
});

test('resources that were open before are not reported', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  expect(await watchResources()(0)).toEqual([]);
  server.close();
});

/** Report of Jest on a file of tests in this environment. */
async function reportOf(tests: string): Promise<string> {
  await using dir = await tempDir();
  await writeFile(join(dir.path, 'one.test.js'), tests);
  const testEnvironment = fileURLToPath(new URL('./environment.mjs', import.meta.url));
  await writeFile(join(dir.path, 'jest.config.json'), JSON.stringify({ testEnvironment, transform: {} }));
  const jest = fileURLToPath(new URL('../../../node_modules/jest/bin/jest.js', import.meta.url));
  const child = spawn(process.execPath, [jest, '--no-cache', '--no-watchman', '--runInBand', '--forceExit'], {
    cwd: dir.path,
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, NO_COLOR: '1' },
  });
  const [output] = await Promise.all([text(child.stderr), once(child, 'close')]);
  return output;
}

const LISTEN = `await new Promise((done) => require('node:net').createServer().listen(0, '127.0.0.1', done));`;

test('a file whose tests leave a server open fails', async () => {
  const report = await reportOf(`test('leaves it', async () => { ${LISTEN} });`);
  expect(report).toContain('these are still open: TCPServerWrap');
}, 60_000);

test('a test that fails is reported, not what it leaves open', async () => {
  const report = await reportOf(
    `test('fails', async () => { ${LISTEN} expect('the value').toBe('the other'); });`,
  );
  expect(report).toContain('Received: "the value"');
  expect(report).not.toContain('still open');
}, 60_000);
