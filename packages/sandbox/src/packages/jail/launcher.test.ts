import { spawnSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { tempDir } from '@wellspring/testing/temp-dir';
import { compileAddon } from '../../attacks/native-addon.fixture.ts';
import { provideLauncher } from '../../tiers/compile-launcher.ts';
import { JAILS, openJail } from '../jail.fixture.ts';
import { jsonLines } from '../jailed/lines.ts';
import { openCanary } from '../registry.fixture.ts';

/** Runs these statements instead of the program that starts the package manager. */
const program = (body: string) => `
import fs from 'node:fs'; import os from 'node:os'; import net from 'node:net'; import dgram from 'node:dgram';
import { spawn } from 'node:child_process';
const request = JSON.parse(fs.readFileSync(0, 'utf8'));
const answer = (value) => process.stdout.write(JSON.stringify(value) + '\\n');
const outcome = (emitter, event) => new Promise((resolve) => {
  emitter.on('error', ({ code }) => resolve(code)).on(event, () => resolve(event));
});
const stdio = ['pipe', 'pipe', 'pipe'];
${body}`;

const NETWORK = program(`
const dial = (port, host) => outcome(net.connect(port, host), 'connect');
answer({
  gateway: await dial(request.gateway, '127.0.0.1'),
  other: await dial(request.other, '127.0.0.1'),
  six: await dial(request.gateway, '::1'),
  udp: await outcome(dgram.createSocket('udp4').bind(0), 'listening'),
  listen: await outcome(net.createServer().listen(0, '127.0.0.1'), 'listening'),
});
process.exit(0);`);

const LEAVE_BEHIND = program(`
const endless = ['-e', 'for (;;);'];
const child = spawn(process.execPath, endless, { stdio });
// Tries to create a process group.
const detached = spawn(process.execPath, endless, { stdio, detached: true });
answer({ uid: process.getuid(), started: await Promise.all([child, detached].map((one) => one.pid > 0)) });
process.exit(0);`);

const FILL = program(`
// Written by a child process to a deleted file.
const child = spawn(process.execPath, ['-e', \`
  const fs = require('node:fs'); const much = Buffer.alloc(64e6, 1);
  for (let n = 0; n < 12; n++) { const fd = fs.openSync('/tmp/x', 'w'); fs.unlinkSync('/tmp/x'); fs.writeSync(fd, much); }
  for (;;);\`], { stdio });
await outcome(child, 'exit');`);

/** The body of `calling`: a thread fills deleted files after the main thread has ended. */
const FILL_WITHOUT_MAIN_THREAD = `
const { Worker } = await import('node:worker_threads');
const ended = new Int32Array(new SharedArrayBuffer(4));
const worker = new Worker(\`
  const fs = require('node:fs'); const much = Buffer.alloc(64e6, 1);
  const { ended } = require('node:worker_threads').workerData;
  require('node:worker_threads').parentPort.postMessage('ready');
  Atomics.wait(ended, 0, 0);
  for (let n = 0; n < 12; n++) { const fd = fs.openSync('/tmp/x', 'w'); fs.unlinkSync('/tmp/x'); fs.writeSync(fd, much); }
  for (;;);\`, { eval: true, workerData: { ended } });
await outcome(worker, 'message');
ended[0] = 1;
Atomics.notify(ended, 0);
call(event.exit, 0);`;

const usesUser = (uid: number) =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .some((name) => {
      try {
        return statSync(`/proc/${name}`).uid === uid;
      } catch {
        return false;
      }
    });

(JAILS.includes('launcher') ? describe : describe.skip)(
  'the jail of the package manager, by the launcher',
  () => {
    async function start(source: string, port?: number) {
      const opened = await openJail('launcher', { install: source }, port);
      const jailed = opened.jail.spawn('install');
      jailed.child.stderr.resume();
      return { ...jailed, [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose]() };
    }

    test('reaches only the port of the gateway', async () => {
      await using gateway = await openCanary();
      await using other = await openCanary();
      const port = ({ host }: { host: string }) => Number(host.split(':')[1]);
      await using jail = await start(NETWORK, port(gateway));
      jail.child.stdin.end(JSON.stringify({ gateway: port(gateway), other: port(other) }));
      const { value } = await jsonLines(jail.child.stdout).next();
      await jail.end();
      expect(value).toEqual({
        gateway: 'connect',
        other: 'EACCES',
        six: 'EAFNOSUPPORT',
        udp: 'EAFNOSUPPORT',
        listen: 'EPERM',
      });
      // Positive control: the other port answers outside of the jail.
      expect(await (await fetch(`http://${other.host}/`)).text()).toBe('canary');
    });

    test('refuses to start for a process that has ended', async () => {
      await using cache = await tempDir();
      const launcher = provideLauncher(cache.path);
      const run = (parent: number) =>
        spawnSync(
          launcher,
          [
            'run',
            'root=/',
            'uid=2000000001',
            'seccomp=/dev/null',
            'nofile=9',
            'nproc=9',
            'fsize=9',
            `parent=${parent}`,
            '--',
            '/x',
          ],
          { encoding: 'utf8' },
        ).stderr;
      expect(run(1)).toContain('the process that started it has ended');
      expect(run(process.pid)).toContain('not a seccomp filter');
    });

    test('leaves no process after the end of its program', async () => {
      await using jail = await start(LEAVE_BEHIND);
      jail.child.stdin.end('{}');
      const { value } = await jsonLines(jail.child.stdout).next();
      const { uid, started } = value as { uid: number; started: boolean[] };
      expect(started).toEqual([true, true]);
      await eventually(() => !usesUser(uid));
      await jail.end();
    });

    test('is killed if files of its processes exceed the limit of its directory', async () => {
      await using jail = await start(FILL);
      jail.child.stdin.end('{}');
      await eventually(() => jail.child.exitCode !== null, { ms: 30_000 });
      await jail.end();
      expect(jail.isFull()).toBe(true);
    }, 60_000);

    test('is killed if its files exceed the limit while its main thread has ended', async () => {
      const addon = compileAddon();
      const { body, event } = addon.calling(FILL_WITHOUT_MAIN_THREAD);
      addon.remove();
      await using jail = await start(program(`const event = request; ${body}`));
      jail.child.stdin.end(JSON.stringify(event));
      await eventually(() => jail.child.exitCode !== null, { ms: 30_000 });
      await jail.end();
      expect(jail.isFull()).toBe(true);
    }, 60_000);
  },
);
