import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { tempDir } from '@wellspring/testing/temp-dir';
import { KERNEL_TIERS, openSandbox, values } from '../sandbox.fixture.ts';
import { CHILD_LIMITS } from '../tiers/tier.ts';
import { type Attempt, compileAddon, type NativeAddon, type Outcomes } from './native-addon.fixture.ts';
import { attack } from './rows.ts';

const AF_UNIX = 1;
const [STREAM, DATAGRAM, SEQUENCE] = [1, 2, 5];
const [SOL_SOCKET, SO_SNDBUF] = [1, 7];
const [AT_FDCWD, READ_WRITE_CREATE] = [-100, 0o102];
const MB = 1024 * 1024;

/** An address of two bytes, the family: the kernel chooses an abstract name. */
const ANY = { hex: '0100' };
const pair = { hex: '00'.repeat(8) };
const attempts: Attempt[] = [
  {
    name: 'a listener',
    steps: [
      ['socket', AF_UNIX, STREAM, 0],
      ['bind', { step: 0 }, ANY, 2],
      ['listen', { step: 0 }, 4096],
    ],
  },
  { name: 'listening', steps: [['listen', -1, 1]] },
  { name: 'a socket for datagrams', steps: [['socket', AF_UNIX, DATAGRAM, 0]] },
  { name: 'a socket for sequences of packets', steps: [['socket', AF_UNIX, SEQUENCE, 0]] },
  { name: 'connected sockets for datagrams', steps: [['socketpair', AF_UNIX, DATAGRAM, 0, pair]] },
  { name: 'a queue of events of files', steps: [['inotify_init1', 0]] },
];

/** F_SETLK, F_SETLKW and F_OFD_SETLK. */
const LOCKS = [6, 7, 37];
const MANY = 1_000;
/** Locks every second byte of a file. Returns the file and the results by command. */
const lockMuch = `
  const file = fs.openSync(os.tmpdir() + '/locked', 'w+');
  // struct flock
  const lock = Buffer.alloc(32);
  const [F_WRLCK, length] = [1, 1n];
  lock.writeInt16LE(F_WRLCK, 0);
  lock.writeBigInt64LE(length, 16);
  let at = 0n;
  const results = ${JSON.stringify(LOCKS)}.map((command) => {
    const seen = new Set();
    for (let n = 0; n < ${MANY}; n++, at += 2n) {
      lock.writeBigInt64LE(at, 8);
      seen.add(call(event.fcntl, file, command, lock));
    }
    return [...seen];
  });
  const { dev, ino } = fs.fstatSync(file);
  return { results, dev, ino };`;

interface Locked {
  /** 0, or -errno */
  results: number[][];
  dev: number;
  ino: number;
}

/** Locks of the kernel on a file. */
function countLocks({ dev, ino }: Locked): number {
  const hex = (number: number) => number.toString(16).padStart(2, '0');
  const [major, minor] = [(dev >> 8) & 0xfff, (dev & 0xff) | ((dev >> 12) & 0xfff00)];
  const name = ` ${hex(major)}:${hex(minor)}:${ino} `;
  return readFileSync('/proc/locks', 'utf8').split(name).length - 1;
}

/** Queues signals that the main thread does not take. Returns their number and the last result. */
const queueSignals = `
  const [SIG_BLOCK, signal, many] = [0, 40, ${MANY}];
  const mask = Buffer.alloc(8);
  mask.writeBigUInt64LE(1n << BigInt(signal - 1));
  call(event.rt_sigprocmask, SIG_BLOCK, mask, 0, mask.length);
  const thread = call(event.getpid);
  let [queued, result] = [0, 0];
  while (queued < many && (result = call(event.tkill, thread, signal)) === 0) queued += 1;
  return { queued, result };`;

let addon: NativeAddon;
beforeAll(() => {
  addon = compileAddon();
});
afterAll(() => addon.remove());

describe.each(KERNEL_TIERS)('a native addon in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier));

  test(`has no queue that nobody needs to read (row ${attack('21b', tier).id})`, async () => {
    const outcome = await sandbox.run(addon.body, { event: addon.event(attempts) });
    const inside = values(outcome)[0] as Outcomes;
    expect(Object.keys(inside)).toEqual(attempts.map(({ name }) => name));
    const other = Object.entries(inside).filter(([, error]) => !/^(EPERM|EAFNOSUPPORT)$/.test(error));
    expect(other).toEqual([]);
    // Positive control: outside of the sandbox, the kernel allows these calls.
    const { listening, ...outside } = addon.outside(attempts);
    expect(listening).toBe('EBADF');
    expect(Object.values(outside)).toEqual(Object.keys(outside).map(() => 'done'));
  });

  test(`takes no locks of the kernel (row ${attack('21b', tier).id})`, async () => {
    const { body, event } = addon.calling(lockMuch);
    // Its process, and what it holds, stays.
    const outcome = await sandbox.run(body, { event, process: 'locks/1' });
    const inside = values(outcome)[0] as Locked;
    const EINVAL = 22;
    expect(inside.results).toEqual([[0], [0], [-EINVAL]]);
    expect(countLocks(inside)).toBe(0);
    // Positive control.
    await using directory = await tempDir();
    using outside = await addon.callOutside(lockMuch, directory.path);
    expect(outside.value).toMatchObject({ results: [[0], [0], [0]] });
    // The kernel lists locks in pieces, between which others come and go.
    expect(countLocks(outside.value as Locked)).toBeGreaterThan(MANY);
  });

  test(`has few queued signals (row ${attack('21b', tier).id})`, async () => {
    const { body, event } = addon.calling(queueSignals);
    const outcome = await sandbox.run(body, { event });
    const EAGAIN = 11;
    expect(values(outcome)).toEqual([{ queued: CHILD_LIMITS.sigpending, result: -EAGAIN }]);
    // Positive control.
    await using directory = await tempDir();
    using outside = await addon.callOutside(queueSignals, directory.path);
    expect(outside.value).toEqual({ queued: MANY, result: 0 });
  });

  test(`cannot raise the memory of its sockets, or keep pages of files in them (row ${attack('21b', tier).id})`, async () => {
    await using directory = await tempDir();
    const enlarge = (path: string): Attempt[] => [
      {
        name: 'SO_SNDBUF',
        steps: [
          ['socket', AF_UNIX, STREAM, 0],
          ['setsockopt', { step: 0 }, SOL_SOCKET, SO_SNDBUF, { hex: '00004000' }, 4],
        ],
      },
      {
        name: 'sendfile',
        steps: [
          ['openat', AT_FDCWD, path, READ_WRITE_CREATE, 0o600],
          ['openat', AT_FDCWD, `${path}-copy`, READ_WRITE_CREATE, 0o600],
          ['sendfile', { step: 1 }, { step: 0 }, 0, 1],
        ],
      },
    ];
    const outcome = await sandbox.run(addon.body, { event: addon.event(enlarge('/tmp/sent')) });
    expect(values(outcome)).toEqual([{ SO_SNDBUF: 'EPERM', sendfile: 'EINVAL' }]);
    // Positive control.
    expect(addon.outside(enlarge(`${directory.path}/sent`))).toEqual({ SO_SNDBUF: 'done', sendfile: 'done' });
    // Node copies without the call.
    const copied = await sandbox.run(`const copy = os.tmpdir() + '/copy';
      fs.copyFileSync('/etc/passwd', copy);
      return fs.readFileSync(copy, 'utf8') === fs.readFileSync('/etc/passwd', 'utf8')`);
    expect(values(copied)).toEqual([true]);
  });

  test(`cannot allocate disk without writing (row ${attack('21', tier).id})`, async () => {
    await using directory = await tempDir();
    const allocate = (path: string): Attempt[] => [
      {
        name: 'fallocate',
        steps: [
          ['openat', AT_FDCWD, path, READ_WRITE_CREATE, 0o600],
          ['fallocate', { step: 0 }, 0, 0, MB],
        ],
      },
    ];
    const outcome = await sandbox.run(addon.body, { event: addon.event(allocate('/tmp/allocated')) });
    // The C library writes instead when it gets this error.
    expect(values(outcome)).toEqual([{ fallocate: 'EOPNOTSUPP' }]);
    // Positive control.
    expect(addon.outside(allocate(`${directory.path}/allocated`))).toEqual({ fallocate: 'done' });
  });
});

test.each(KERNEL_TIERS)('watching a file is an error that tells so in tier %s', async (tier) => {
  await using sandbox = await openSandbox(tier);
  const outcome = await sandbox.run(`fs.watch(os.tmpdir())`);
  expect(outcome).toMatchObject({
    ok: false,
    reason: 'thrown',
    error: { message: expect.stringContaining('EPERM: operation not permitted, watch') },
  });
});
