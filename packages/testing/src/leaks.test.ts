import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { expect, test } from '@jest/globals';
import { watchResources } from './leaks.mjs';

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
