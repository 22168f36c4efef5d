import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { silentLog } from '@wellspring/core/log';
import { eventually } from '@wellspring/testing/eventually';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import type { Connection } from '../connection.ts';
import { argumentsOf, descendants, isAlive } from '../processes.fixture.ts';
import { writePrograms } from '../runtime-files.ts';
import type { Command } from './messages.ts';
import { createSpawner, type SpawnedProcess, type Spawner } from './spawner.ts';

let directory: TempDir;
let spawner: Spawner;
beforeEach(async () => {
  directory = await tempDir();
  const programs = await writePrograms(directory.path);
  spawner = createSpawner({ program: programs.spawner, directory: directory.path, log: silentLog });
});
afterEach(async () => {
  await spawner.close();
  await directory.remove();
});

const shell = (script: string, options: Partial<Command> = {}): Command => ({
  file: '/bin/sh',
  args: ['-c', script],
  cwd: '/',
  env: {},
  killMethod: 'SIGKILL',
  ...options,
});

const spawners = () =>
  descendants(process.pid).filter((pid) => argumentsOf(pid).some((one) => one.endsWith('spawner.mjs')));
const textOf = async ({ socket, read }: Connection) => {
  let all = '';
  read((chunk) => {
    all += chunk.toString('latin1');
  });
  await once(socket, 'close');
  return all;
};
const readAll = ({ stdout, stderr, frames }: SpawnedProcess) =>
  Promise.all([text(stdout), text(stderr), textOf(frames)]);

/** All data of a stream. */
const ended = (started: SpawnedProcess) => {
  for (const stream of [started.stdout, started.stderr, started.frames.socket]) stream.resume();
  return started.ended;
};

test('all bytes of the three streams arrive, and the exit code is reported', async () => {
  const bytes = 'head -c 50000 /dev/zero | tr "\\0" x';
  const started = await spawner.spawn(shell(`${bytes}; ${bytes} >&2; ${bytes} >&3; exit 3`));
  expect(await readAll(started)).toEqual(Array(3).fill('x'.repeat(50_000)));
  expect(await started.ended).toMatchObject({ exitCode: 3, signal: null });
});

test('the kernel kills started processes first when memory runs out', async () => {
  const started = await spawner.spawn(shell('cat /proc/self/oom_score_adj'));
  expect((await readAll(started))[0]).toBe('1000\n');
});

test('many processes start concurrently, each with its own streams', async () => {
  const starts = Array.from({ length: 20 }, async (_, number) => {
    const started = await spawner.spawn(shell(`echo ${number}; echo e${number} >&2; echo f${number} >&3`));
    return readAll(started);
  });
  expect(await Promise.all(starts)).toEqual(
    starts.map((_, number) => [`${number}\n`, `e${number}\n`, `f${number}\n`]),
  );
});

test('a process that has ended before its start is known is started all the same', async () => {
  await readAll(await spawner.spawn(shell('true')));
  const starting = spawner.spawn(shell('echo late; echo too >&3'));
  await new Promise(setImmediate);
  // This thread is busy until the process has ended: its end is read first, then its streams.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  const started = await starting;
  expect(await readAll(started)).toEqual(['late\n', '', 'too\n']);
  expect(await started.ended).toEqual({ type: 'exited', id: 2, exitCode: 0, signal: null });
});

test('the input is descriptor 4, and no socket of the spawner is inherited', async () => {
  const started = await spawner.spawn(
    shell('ls -l /proc/$$/fd | grep -c socket; head -c 1 <&4 >&3', { input: process.execPath }),
  );
  const [stdout, , frames] = await readAll(started);
  expect(stdout).toBe('3\n');
  expect(frames).toBe('\x7f');
});

test.each([
  ['a program that does not exist', { file: '/no/such/program' }, /ENOENT/],
  ['an input that does not exist', { input: '/no/such/file' }, /ENOENT/],
])('%s rejects the start', async (_, options, message) => {
  await expect(spawner.spawn(shell('true', options))).rejects.toThrow(message);
});

test('a process is killed with the method of its command', async () => {
  const term = await spawner.spawn(shell('exec sleep 1000', { killMethod: 'SIGTERM' }));
  term.kill();
  expect(await ended(term)).toMatchObject({ signal: 'SIGTERM' });
  const tree = await spawner.spawn(shell('sh -c "sleep 1000 & wait" & wait', { killMethod: 'tree' }));
  await eventually(() => descendants(tree.pid).length === 2);
  const below = descendants(tree.pid);
  tree.kill();
  expect(await ended(tree)).toMatchObject({ signal: 'SIGKILL' });
  await eventually(() => below.every((pid) => !isAlive(pid)));
});

test('if the spawner is killed, its processes end, pending starts reject, and the next start works', async () => {
  const started = await spawner.spawn(shell('sleep 1000 & wait', { killMethod: 'tree' }));
  await eventually(() => descendants(started.pid).length === 1);
  const below = [started.pid, ...descendants(started.pid)];
  const [pid = 0] = spawners();
  process.kill(pid, 'SIGSTOP');
  const pending = spawner.spawn(shell('true'));
  process.kill(pid, 'SIGKILL');
  await expect(pending).rejects.toThrow('The process that starts others has ended.');
  await ended(started);
  await eventually(() => below.every((one) => !isAlive(one)));
  const next = await spawner.spawn(shell('echo works'));
  expect(await readAll(next)).toEqual(['works\n', '', '']);
});

test('a connection without the token is refused', async () => {
  const started = await spawner.spawn(shell('echo mine >&3'));
  const [name] = (await readdir(directory.path)).filter((one) => one.startsWith('sp-'));
  const other = createConnection(join(directory.path, name!, 's')).on('error', () => {});
  other.write(`${'0'.repeat(32)} 1 frames\n`);
  await text(other);
  expect(await readAll(started)).toEqual(['', '', 'mine\n']);
});

test('closing at any time during a start leaves no process', async () => {
  for (let round = 0; round < 10; round += 1) {
    const one = createSpawner({
      program: `${directory.path}/spawner.mjs`,
      directory: directory.path,
      log: silentLog,
    });
    const starts = Array.from({ length: 5 }, async () => {
      const started = await one.spawn(shell('sleep 1000', { killMethod: 'tree' })).catch(() => {});
      if (started) await ended(started);
    });
    await delay(round * 20);
    const seen = spawners().flatMap((pid) => [pid, ...descendants(pid)]);
    await one.close();
    await Promise.all(starts);
    await eventually(() => seen.every((pid) => !isAlive(pid)));
  }
});
