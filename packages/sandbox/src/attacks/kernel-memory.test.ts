import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { tempDir } from '@wellspring/testing/temp-dir';
import { KERNEL_TIERS, openSandbox, values } from '../sandbox.fixture.ts';
import { type Attempt, compileAddon, type NativeAddon, type Outcomes } from './native-addon.fixture.ts';
import { attack } from './rows.ts';

const AF_UNIX = 1;
const [STREAM, DATAGRAM, SEQUENCE] = [1, 2, 5];
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
