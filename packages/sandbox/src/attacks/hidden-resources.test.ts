import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { KERNEL_TIERS, openSandbox, values } from '../sandbox.fixture.ts';
import {
  type Attempt,
  compileAddon,
  MAP_ANONYMOUS,
  MAP_HUGETLB,
  MAP_PRIVATE,
  MAP_SHARED,
  type NativeAddon,
  type Outcomes,
  usePageTables,
} from './native-addon.fixture.ts';

/** System calls, unused by Node.js, that evade the accounting and stopping of the platform. */

const [F_SETOWN, F_SETSIG, F_SETLEASE, F_NOTIFY] = [8, 10, 1024, 1026];
const SIGCONT = 18;
const READ_WRITE = 3;
const CLOSE_RANGE_UNSHARE = 2;
const [MADV_HUGEPAGE, MADV_COLLAPSE] = [14, 25];
const [CLONE_FILES, CLONE_THREAD] = [0x400, 0x10000];
const MB = 1024 * 1024;

const map = (name: string, flags: number): Attempt => ({
  name,
  steps: [['mmap', 0, MB, READ_WRITE, flags, -1, 0]],
});
const attempts: Attempt[] = [
  { name: 'SIGCONT from a socket', steps: [['fcntl', 1, F_SETSIG, SIGCONT]] },
  { name: 'signals from a socket', steps: [['fcntl', 1, F_SETOWN, 1]] },
  { name: 'a lease on a file', steps: [['fcntl', 1, F_SETLEASE, 0]] },
  { name: 'SIGCONT to itself', steps: [['getpid'], ['kill', { step: 0 }, SIGCONT]] },
  { name: 'SIGCONT to a thread', steps: [['getpid'], ['tkill', { step: 0 }, SIGCONT]] },
  { name: 'SIGCONT to its thread', steps: [['getpid'], ['tgkill', { step: 0 }, { step: 0 }, SIGCONT]] },
  { name: 'signals from a directory', steps: [['fcntl', 1, F_NOTIFY, 1]] },
  map('shared memory', MAP_SHARED | MAP_ANONYMOUS),
  map('huge pages', MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB),
  { name: 'descriptors of its own', steps: [['close_range', 4000, 4000, CLOSE_RANGE_UNSHARE]] },
  // Without the other flags of a thread the call is invalid outside of the sandbox.
  { name: 'a thread with descriptors of its own', steps: [['clone', CLONE_THREAD, 0, 0, 0, 0]] },
  {
    name: 'a thread with a working directory of its own',
    steps: [['clone', CLONE_THREAD | CLONE_FILES, 0, 0, 0, 0]],
  },
  { name: 'descriptors under way', steps: [['sendmsg', -1, 0, 0]] },
];

let addon: NativeAddon;
beforeAll(() => {
  addon = compileAddon();
});
afterAll(() => addon.remove());

describe.each(KERNEL_TIERS)('in tier %s', (tier) => {
  const sandbox = forSuite(() => openSandbox(tier));

  test('a native addon cannot hide memory, files or signals from the platform', async () => {
    const outcome = await sandbox.run(addon.body, { event: addon.event(attempts) });
    const inside = values(outcome)[0] as Outcomes;
    expect(Object.entries(inside)).toEqual(attempts.map(({ name }) => [name, 'EPERM']));
    // Positive control: outside of the sandbox the kernel allows these calls.
    const outside = addon.outside(attempts);
    expect(Object.entries(outside).filter(([, result]) => result === 'EPERM')).toEqual([]);
    expect(outside).toMatchObject({
      'SIGCONT from a socket': 'done',
      'shared memory': 'done',
      'descriptors of its own': 'done',
    });
  });

  test('a native addon gets no huge pages, whose unmapped parts no figure shows', async () => {
    const huge = [MADV_HUGEPAGE, MADV_COLLAPSE].map(
      (advice): Attempt => ({
        name: `madvise ${advice}`,
        steps: [
          ['mmap', 0, 4 * MB, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0],
          ['madvise', { step: 0 }, 4 * MB, advice],
        ],
      }),
    );
    const outcome = await sandbox.run(addon.body, { event: addon.event(huge) });
    // As on a kernel without huge pages.
    expect(values(outcome)).toEqual([Object.fromEntries(huge.map(({ name }) => [name, 'EINVAL']))]);
  });

  test('/dev contains no device for memory or terminals', async () => {
    const outcome = await sandbox.run(
      `return ['zero', 'ptmx', 'pts', 'shm', 'tty'].filter((name) => fs.existsSync('/dev/' + name))`,
    );
    expect(values(outcome)).toEqual([[]]);
  });

  test('page tables count as memory', async () => {
    const { body, event } = addon.calling(
      `${usePageTables(256)} await new Promise(() => setTimeout(() => {}, 1e6))`,
    );
    const outcome = await sandbox.run(body, { event, timeoutMs: 10_000 });
    expect(outcome).toMatchObject({ ok: false, reason: 'memory' });
  });

  test('code whose main thread has ended, so that the kernel shows no figures of it, is killed', async () => {
    const { body, event } = addon.calling('call(event.exit, 0);');
    const outcome = await sandbox.run(body, { event, timeoutMs: 10_000 });
    expect(outcome).toMatchObject({
      ok: false,
      reason: 'limit',
      error: { message: 'The code ended its main thread.' },
    });
  });

  test('a crash starts no core dump program on the host', async () => {
    const outcome = await sandbox.run(
      'process.report.excludeNetwork = true; return process.report.getReport().userLimits.core_file_size_blocks',
    );
    expect(values(outcome)).toEqual([{ soft: 1, hard: 1 }]);
  });
});
