import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { KERNEL_TIERS, openSandbox, values } from '../sandbox.fixture.ts';
import { AT_FDCWD, KERNEL_ROWS, one } from './kernel-attempts.fixture.ts';
import { type Attempt, compileAddon, type NativeAddon, type Outcomes } from './native-addon.fixture.ts';
import { attack } from './rows.ts';

const AF_UNIX = 1;
const STREAM = 1;
const TIOCSTI = 0x5412;

const start = (name: string, flags = 0): Attempt => ({
  name: `${name} ${flags}`,
  steps: [[name, flags]],
  startProcess: true,
});

/** Bytes of struct sockaddr_un; an abstract name begins with NUL. */
const address = (name: string) => ({ hex: `0100${Buffer.from(name).toString('hex')}` });
const reach = (name: string, path: string): Attempt => ({
  name,
  steps: [
    ['socket', AF_UNIX, STREAM, 0],
    ['connect', { step: 0 }, address(path), 2 + Buffer.byteLength(path)],
  ],
});

let directory: TempDir;
let addon: NativeAddon;
let victim: ChildProcess;
const servers: Server[] = [];
let [socketPath, abstractName] = ['', ''];

beforeAll(async () => {
  directory = await tempDir();
  addon = compileAddon();
  victim = spawn('sleep', ['600'], { stdio: 'ignore' });
  chmodSync(directory.path, 0o755);
  socketPath = join(directory.path, 'open.sock');
  abstractName = `\0wellspring-attack-${process.pid}`;
  for (const path of [socketPath, abstractName]) {
    const server = createServer((socket) => socket.destroy()).listen(path);
    servers.push(server);
    await once(server, 'listening');
  }
  chmodSync(socketPath, 0o777);
  writeFileSync(join(directory.path, 'secret'), 'secret', { mode: 0o666 });
});

afterAll(async () => {
  for (const server of servers) server.close();
  victim.kill('SIGKILL');
  addon.remove();
  await directory.remove();
});

/** Attempts by row, and their expected outcomes in the sandbox. */
const ROWS: [id: string, expected: string[], attempts: () => Attempt[]][] = [
  ...KERNEL_ROWS.map(([id, expected, attempts]): (typeof ROWS)[number] => [
    id,
    expected,
    () => attempts(victim.pid!),
  ]),
  [
    '10',
    ['EAFNOSUPPORT'],
    () => [2, 10].flatMap((family) => [1, 2].map((type) => one('socket', family, type, 0))),
  ],
  [
    '9b',
    ['EPERM', 'ENOSYS'],
    () => [
      start('fork'),
      start('vfork'),
      start('clone', 17),
      start('clone', 0x10000000 + 17),
      one('clone3', 0, 0),
      one('execveat', AT_FDCWD, '/nowhere', 0, 0, 0),
    ],
  ],
  [
    '9c',
    ['EPERM'],
    () => [
      one('setpriority', 0, 0, -5),
      one('prlimit64', victim.pid!, 7, 0, { hex: '00'.repeat(16) }),
      // RLIMIT_NOFILE and RLIMIT_NPROC, 768.
      ...[7, 6].map((resource) => one('prlimit64', 0, resource, { hex: '0003000000000000'.repeat(2) }, 0)),
      one('setuid', 0),
      one('prctl', 1, 0),
      one('prctl', 4, 0),
      one('ioctl', 0, TIOCSTI, 'x'),
      one('mknodat', AT_FDCWD, '/tmp/device', 0o20666, 0x0103),
    ],
  ],
  [
    '15',
    ['ENOENT', 'EPERM', 'ECONNREFUSED'],
    () => [reach('a path that everybody may write', socketPath), reach('an abstract name', abstractName)],
  ],
  [
    '32',
    ['EPERM', 'ENOENT', 'EACCES', 'EROFS'],
    () => [
      one('shmget', 0x7e57, 4096, 0o1666),
      one('msgget', 0x7e57, 0o1666),
      one('semget', 0x7e57, 1, 0o1666),
      one('mq_open', 'wellspring-attack', 0o102, 0o666, 0),
      one('openat', AT_FDCWD, '/dev/shm/wellspring-attack', 0o102, 0o666),
    ],
  ],
];

describe.each(KERNEL_TIERS)('a native addon in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier));

  test.each(ROWS)(
    'row %s: attempts fail in the sandbox and succeed outside',
    async (id, expected, attemptsOf) => {
      attack(id, tier);
      const attempts = attemptsOf();
      const outcome = await sandbox.run(addon.body, { event: addon.event(attempts) });
      expect(outcome).toMatchObject({ ok: true });
      const inside = values(outcome)[0] as Outcomes;
      expect(Object.keys(inside).length).toBeGreaterThan(0);
      const got = Object.entries(inside).filter(([, result]) => !expected.includes(result));
      expect(got).toEqual([]);
      // Positive control: outside of the sandbox each attempt has another outcome.
      const outside = addon.outside(attempts);
      const optional = new Set(attempts.filter((attempt) => attempt.optional).map(({ name }) => name));
      const same = Object.entries(outside).filter(
        ([name, result]) => result === inside[name] && !optional.has(name),
      );
      expect(same.map(([name, result]) => `${name}: ${result}`)).toEqual([]);
    },
  );

  test('row 8: a signal to all processes reaches no other process', async () => {
    const kill = [one('kill', -1, 9)];
    for (const call of [1, 2]) {
      const outcome = await sandbox.run(
        `globalThis.calls = (globalThis.calls ?? 0) + 1; const body = async () => { ${addon.body} }; await body(); return calls`,
        {
          event: addon.event(kill),
          process: 'kill/1',
        },
      );
      expect(values(outcome)).toEqual([call]);
    }
    expect(victim.exitCode ?? victim.signalCode).toBeNull();
  });

  test('row 16: the directory of its socket has another owner', async () => {
    attack('16', tier);
    const attempts = [
      one('fchmodat', AT_FDCWD, '/run/eg', 0o777),
      one('unlinkat', AT_FDCWD, '/run/eg', 0x200),
      one('openat', AT_FDCWD, '/run/eg/x', 0o101, 0o666),
    ];
    const outcome = await sandbox.run(addon.body, { event: addon.event(attempts) });
    for (const result of Object.values(values(outcome)[0] as Outcomes))
      expect(['EROFS', 'EACCES', 'EPERM', 'EBUSY']).toContain(result);
  });
});
