import { spawn } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { eventually } from '@wellspring/testing/eventually';
import { tempDir } from '@wellspring/testing/temp-dir';
import { KERNEL_ROWS } from '../../attacks/kernel-attempts.fixture.ts';
import { compileAddon, type NativeAddon, type Outcomes } from '../../attacks/native-addon.fixture.ts';
import { argumentsOf, descendants, isAlive, uidsOf } from '../../processes.fixture.ts';
import { JAILS, openJail } from '../jail.fixture.ts';
import { jsonLines } from '../jailed/lines.ts';
import { openCanary } from '../registry.fixture.ts';
import { JAILED } from './binaries.ts';
import type { JailProgram } from './jail.ts';

/**
 * Attempts of a package manager or compiler that a package has taken over, in its own process and in one that it
 * starts. Outcomes are error codes or results.
 */
const ATTACK = `
import fs from 'node:fs'; import net from 'node:net'; import dgram from 'node:dgram';
import { spawnSync } from 'node:child_process';
const input = fs.readFileSync(0, 'utf8');
const { data, tcp, udp, unix, abstract, victims, roots } = JSON.parse(input);
const attempt = (act) => { try { return act() ?? true } catch ({ code }) { return code } };
const outcome = (open, event) => new Promise((resolve) => {
  const opened = open();
  opened.on('error', ({ code }) => resolve(code)).on(event, () => { resolve(event); opened.destroy() });
});
const secret = data + '/secret.key';
const answer = {
  files: ['', '/proc/1/root', '/proc/self/root', '../../../../..'].map((by) => attempt(() => fs.readFileSync(by + secret, 'utf8'))),
  directory: attempt(() => fs.readdirSync(data).join()),
  written: attempt(() => fs.writeFileSync(data + '/written', '')),
  tcp: await outcome(() => net.connect(tcp, '127.0.0.1'), 'connect'),
  unix: await outcome(() => net.connect(unix), 'connect'),
  abstract: await outcome(() => net.connect(abstract), 'connect'),
  udp: await new Promise((resolve) => {
    const socket = dgram.createSocket('udp4').on('error', ({ code }) => resolve(code));
    socket.send('x', udp, '127.0.0.1', (error) => { resolve(error?.code ?? 'sent'); socket.close() });
  }),
  signals: victims.map((pid) => attempt(() => process.kill(pid, 0))),
  memory: victims.map((pid) => attempt(() => fs.closeSync(fs.openSync('/proc/' + pid + '/mem')))),
  roots: roots.map((path) => attempt(() => fs.readdirSync(path).length > 0)),
  root: ['setuid', 'seteuid', 'setgid', 'setegid'].map((name) => attempt(() => process[name](0))),
  uid: process.getuid(), gid: process.getgid(), groups: process.getgroups().includes(0),
};
if (process.argv[2] !== 'child' && process.argv[1]) {
  const child = spawnSync(process.execPath, [...process.execArgv, process.argv[1], 'child'], { input, stdio: ['pipe', 'pipe', 'pipe'] });
  answer.child = attempt(() => JSON.parse(child.stdout.toString()));
}
process.stdout.write(JSON.stringify(answer) + '\\n');
`;

/** Another jail that runs at the same time and has its own file. */
const VICTIM = `
import fs from 'node:fs';
fs.writeFileSync('mine', 'of the other jail');
process.stdout.write('"ready"\\n');
process.stdin.resume();
`;

/** Loads a native addon, which makes system calls. */
const nativeAttack = ({ body }: NativeAddon) => `
import fs from 'node:fs'; import os from 'node:os';
const event = JSON.parse(fs.readFileSync(0, 'utf8'));
const attempt = () => { ${body} };
process.stdout.write(JSON.stringify(attempt()) + '\\n');
`;

const PROGRAM = { compile: 'compileNative', install: 'install' } as const;

const isProgram = (pid: number) => argumentsOf(pid)[0] === JAILED.node;

const refused = (values: unknown[], codes: RegExp) => values.every((value) => codes.test(String(value)));

let addon: NativeAddon;
beforeAll(() => {
  addon = compileAddon();
});
afterAll(() => addon.remove());

describe.each(JAILS.filter((name) => name !== 'none'))('a program that was taken over in jail %s', (name) => {
  test.each<JailProgram>(['compile', 'install'])(
    'for %s reads no file of the platform or of other jails, reaches no network, signals nobody and is not root',
    async (kind) => {
      const key = PROGRAM[kind];
      await using directory = await tempDir();
      await using canary = await openCanary();
      await using gateway = await openCanary();
      const gatewayPort = Number(gateway.host.split(':')[1]);
      await using victims = await openJail(name, { [key]: VICTIM }, gatewayPort);
      await using opened = await openJail(name, { [key]: ATTACK }, gatewayPort);
      await using cleanup = new AsyncDisposableStack();
      // Only the jail prevents access: every user may read the files and connect to the sockets.
      const data = join(directory.path, 'data');
      mkdirSync(data);
      writeFileSync(join(data, 'secret.key'), 'the key');
      const datagrams: string[] = [];
      const datagram = createSocket('udp4').on('message', (message) => datagrams.push(String(message)));
      datagram.bind(0, '127.0.0.1');
      cleanup.defer(() => void datagram.close());
      await once(datagram, 'listening');
      const [unix, abstract] = [join(directory.path, 's'), `\0wellspring-test-${process.pid}`];
      const servers = [unix, abstract].map((path) => createServer((socket) => socket.end()).listen(path));
      for (const server of servers) cleanup.defer(() => void server.close());
      await Promise.all(servers.map((server) => server.listening || once(server, 'listening')));
      for (const [path, mode] of [
        [directory.path, 0o755],
        [data, 0o777],
        [join(data, 'secret.key'), 0o644],
        [unix, 0o666],
      ] as const)
        chmodSync(path, mode);

      const other = victims.jail.spawn(kind);
      cleanup.defer(() => other.end());
      expect((await jsonLines(other.child.stdout).next()).value).toBe('ready');
      const otherPids = [other.child.pid!, ...descendants(other.child.pid!)];
      const attacker = opened.jail.spawn(kind);
      cleanup.defer(() => attacker.end());
      // Before that, its process may still execute the launcher.
      const own = await eventually(() => {
        const programs = descendants(attacker.child.pid!).filter(isProgram);
        return programs.length > 0 && programs;
      });
      // The user on the host is not root, regardless of the user in the jail.
      for (const pid of own) expect(uidsOf(pid)).not.toContain(0);
      if (name === 'launcher') {
        const users = (pids: number[]) => new Set(pids.map((pid) => uidsOf(pid)[1]));
        expect(users(own).intersection(users(otherPids)).size).toBe(0);
      }
      const request = JSON.stringify({
        data,
        tcp: Number(canary.host.split(':')[1]),
        udp: datagram.address().port,
        unix,
        abstract,
        victims: [process.pid, attacker.child.pid, ...otherPids],
        roots: [`/proc/${otherPids.at(-1)}/root`, `/proc/${otherPids.at(-1)}/cwd`, directory.path],
      });
      attacker.child.stdin.end(request);
      attacker.child.stderr.resume();
      const { value } = await jsonLines(attacker.child.stdout).next();
      await attacker.end();

      type Answer = Record<string, unknown[]> & { uid: number; gid: number; groups: boolean; child?: Answer };
      const seen = value as Answer;
      for (const answer of [seen, seen.child!]) {
        expect(refused(answer.files!, /^ENOENT$/)).toBe(true);
        expect(answer).toMatchObject({ directory: 'ENOENT', written: 'ENOENT', groups: false });
        expect(answer.tcp).toMatch(/^(EAFNOSUPPORT|EACCES|ECONNREFUSED|ENETUNREACH)$/);
        expect(answer.udp).toBe('EAFNOSUPPORT');
        expect([answer.unix, answer.abstract]).toEqual([
          'ENOENT',
          expect.stringMatching(/^(EPERM|ECONNREFUSED)$/),
        ]);
        expect(refused(answer.signals!, /^(ESRCH|EPERM)$/)).toBe(true);
        expect(refused([...answer.memory!, ...answer.roots!], /^ENOENT$/)).toBe(true);
        expect(refused(answer.root!, /^(EPERM|EINVAL)$/)).toBe(true);
        expect(answer.uid).toBeGreaterThan(60_000);
        expect(answer.gid).toBeGreaterThan(60_000);
      }
      expect(datagrams).toEqual([]);

      // Positive control: outside of the jail, all attempts of the program succeed.
      const program = join(directory.path, 'attack.mjs');
      writeFileSync(program, ATTACK);
      const outside = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] });
      outside.stdin.end(request);
      const control = (await jsonLines(outside.stdout).next()).value as Answer;
      expect([control.files![0], control.files![2]]).toEqual(['the key', 'the key']);
      expect(control).toMatchObject({
        directory: 'secret.key',
        written: true,
        tcp: 'connect',
        udp: 'sent',
        unix: 'connect',
        abstract: 'connect',
      });
      expect(control.roots).toEqual([true, true, true]);
      expect(control.signals!.at(-1)).toBe(true);
      expect(control.memory!.at(-1)).toBe(true);
      await eventually(() => datagrams.length > 0);

      expect(otherPids.every(isAlive)).toBe(true);
    },
  );

  test.each<JailProgram>(['compile', 'install'])(
    'for %s makes no system calls that trace, mount, load code into the kernel or open other sockets',
    async (kind) => {
      await using opened = await openJail(name, { [PROGRAM[kind]]: nativeAttack(addon) });
      await using cleanup = new AsyncDisposableStack();
      const victim = spawn('sleep', ['600'], { stdio: 'ignore' });
      cleanup.defer(() => void victim.kill('SIGKILL'));
      const rows = KERNEL_ROWS.map(([, expected, attempts]) => ({
        expected,
        attempts: attempts(victim.pid!),
      }));
      const attempts = rows.flatMap((row) => row.attempts);
      const attacker = opened.jail.spawn(kind);
      cleanup.defer(() => attacker.end());
      attacker.child.stderr.resume();
      attacker.child.stdin.end(JSON.stringify(addon.event(attempts)));
      const inside = (await jsonLines(attacker.child.stdout).next()).value as Outcomes;
      expect(Object.keys(inside)).toEqual(attempts.map((one) => one.name));
      const unexpected = rows.flatMap(({ expected, attempts }) =>
        attempts.map((one) => [one.name, inside[one.name]!]).filter(([, got]) => !expected.includes(got!)),
      );
      expect(unexpected).toEqual([]);

      // Positive control: outside of the jail each attempt has another outcome.
      const outside = addon.outside(attempts);
      const same = attempts.filter((one) => !one.optional && outside[one.name] === inside[one.name]);
      expect(same.map((one) => one.name)).toEqual([]);
    },
  );
});
