import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { type TempDir, tempDir } from '@wellspring/testing/temp-dir';
import { KERNEL_TIERS, openSandbox, values } from '../sandbox.fixture.ts';
import { type Attempt, compileAddon, type NativeAddon, type Outcomes } from './native-addon.fixture.ts';
import { attack } from './rows.ts';

const AT_FDCWD = -100;
const [AF_UNIX, AF_NETLINK, AF_PACKET, AF_ALG, AF_VSOCK] = [1, 16, 17, 38, 40];
const STREAM = 1;
const TIOCSTI = 0x5412;

const one = (
  name: string,
  ...args: Attempt['steps'][number] extends [string, ...infer A] ? A : never
): Attempt => ({
  name:
    args.length > 0 ? `${name} ${args.map((arg) => (typeof arg === 'number' ? arg : '…')).join(' ')}` : name,
  steps: [[name, ...args]],
});
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
  [
    '7',
    ['EPERM'],
    () => [
      ...[0x00020000, 0x10000000, 0x20000000, 0x40000000].map((flag) => one('unshare', flag)),
      one('setns', -1, 0),
      one('mount', 0, '/', 0, 0, 0),
      one('umount2', '/nowhere', 0),
      one('pivot_root', '/nowhere', '/nowhere'),
      one('chroot', '/'),
      one('open_by_handle_at', AT_FDCWD, { hex: '00'.repeat(16) }, 0),
      one('fsopen', 'tmpfs', 0),
      one('move_mount', -1, '', -1, '', 0),
      one('open_tree', AT_FDCWD, '/', 1),
      one('mount_setattr', -1, '', 0, 0, 0),
    ],
  ],
  [
    '8',
    ['EPERM', 'ESRCH'],
    () => [
      one('ptrace', 0x4206, victim.pid!, 0, 0),
      one('process_vm_readv', victim.pid!, 0, 0, 0, 0, 0),
      one('process_vm_writev', victim.pid!, 0, 0, 0, 0, 0),
      one('pidfd_open', victim.pid!, 0),
      one('kill', victim.pid!, 0),
      one('kill', process.pid, 0),
      one('rt_sigqueueinfo', victim.pid!, 0, { hex: `${'00'.repeat(8)}ffffffff${'00'.repeat(116)}` }),
      one('kcmp', victim.pid!, victim.pid!, 0, 0, 0),
    ],
  ],
  [
    '9',
    ['EPERM'],
    () => [
      one('bpf', 0, 0, 0),
      one('perf_event_open', 0, 0, 0, 0, 0),
      one('userfaultfd', 0),
      one('io_uring_setup', 1, { hex: '00'.repeat(120) }),
      one('add_key', 'user', 'x', 'x', 1, -3),
      one('keyctl', 0, -3, 1),
      one('init_module', 0, 0, ''),
      one('finit_module', -1, '', 0),
      one('personality', 0xffffffff),
      one('memfd_create', 'x', 0),
      one('syslog', 10, 0, 0),
      one('sethostname', 'x', -1),
      one('fanotify_init', 0, 0),
      one('quotactl', 0, 0, 0, 0),
    ],
  ],
  [
    '10',
    ['EAFNOSUPPORT'],
    () => [2, 10].flatMap((family) => [1, 2].map((type) => one('socket', family, type, 0))),
  ],
  [
    '9a',
    ['EAFNOSUPPORT'],
    () => [
      one('socket', AF_NETLINK, 3, 0),
      one('socket', AF_PACKET, 3, 0),
      { ...one('socket', AF_ALG, 5, 0), optional: true },
      { ...one('socket', AF_VSOCK, 1, 0), optional: true },
      one('socketpair', AF_NETLINK, 3, 0, { hex: '00'.repeat(8) }),
    ],
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
