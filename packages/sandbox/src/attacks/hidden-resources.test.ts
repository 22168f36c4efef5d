import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { forSuite } from '@wellspring/testing/lifetimes';
import { KERNEL_TIERS, openSandbox, values } from '../sandbox.fixture.ts';
import { type Attempt, compileAddon, type NativeAddon, type Outcomes } from './native-addon.fixture.ts';

/** System calls, unused by Node.js, that evade the accounting and stopping of the platform. */

const [F_SETOWN, F_SETSIG, F_SETLEASE, F_NOTIFY] = [8, 10, 1024, 1026];
const SIGCONT = 18;
const READ_WRITE = 3;
const [MAP_SHARED, MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE, MAP_HUGETLB] = [1, 2, 0x20, 0x4000, 0x40000];
const CLOSE_RANGE_UNSHARE = 2;
const CLONE_THREAD = 0x10000;
const MB = 1024 * 1024;
const CALLS =
  process.arch === 'arm64' ? { mmap: 222, writev: 66, exit: 93 } : { mmap: 9, writev: 20, exit: 60 };

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
  { name: 'descriptors under way', steps: [['sendmsg', -1, 0, 0]] },
];

let addon: NativeAddon;
beforeAll(() => {
  addon = compileAddon();
});
afterAll(() => addon.remove());

/** Loads the addon, to make system calls by `call`. */
const loaded = () => `await (async () => { ${addon.body} })();
  const load = () => { const it = { exports: {} }; process.dlopen(it, os.tmpdir() + '/attack.node'); return it };
  const { exports: { call } } = load();`;

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

  test('/dev contains no device for memory or terminals', async () => {
    const outcome = await sandbox.run(
      `return ['zero', 'ptmx', 'pts', 'shm', 'tty'].filter((name) => fs.existsSync('/dev/' + name))`,
    );
    expect(values(outcome)).toEqual([[]]);
  });

  test('page tables count as memory', async () => {
    // Reading one byte per 2 MB of a mapping needs a page table each, and no resident memory.
    const outcome = await sandbox.run(
      `${loaded()}
       let at = BigInt(call(event.mmap, 0, 2 ** 40, 1, ${MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE}, -1, 0));
       const sink = fs.openSync(os.tmpdir() + '/sink', 'w');
       for (let calls = 0; calls < 256; calls += 1) {
         const vectors = new BigUint64Array(2 * 1024).map((_, index) => index % 2 ? 1n : at + BigInt(index) * ${MB}n);
         const written = call(event.writev, sink, Buffer.from(vectors.buffer), 1024);
         if (written !== 1024) return written;
         at += ${2 * 1024 * MB}n;
       }
       await new Promise(() => setTimeout(() => {}, 1e6))`,
      { event: { ...(addon.event([]) as object), ...CALLS }, timeoutMs: 10_000 },
    );
    expect(values(outcome)).toEqual([]);
    expect(outcome).toMatchObject({ ok: false, reason: 'memory' });
  });

  test('code whose main thread has ended, so that the kernel shows no figures of it, is killed', async () => {
    const outcome = await sandbox.run(
      `${loaded()}
       call(event.exit, 0);`,
      { event: { ...(addon.event([]) as object), ...CALLS }, timeoutMs: 10_000 },
    );
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
