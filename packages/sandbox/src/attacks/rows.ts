import type { TierName } from '../tiers/tier.ts';

/** One row of the table of attacks in docs/security.md. Each row has a test that names it by its id. */
export interface AttackRow {
  id: string;
  /** What the code of a component tries. */
  attempt: string;
  /** What happens instead. */
  expected: string;
  /** Tiers in which a test shows it. */
  tiers: readonly TierName[];
  /** Paths of the tests in the repository. */
  shownBy: readonly string[];
  /** The self-test looks at it at every start. */
  atStart?: true;
}

const KERNEL: readonly TierName[] = ['bubblewrap', 'launcher'];
const ALL: readonly TierName[] = ['bubblewrap', 'launcher', 'none'];

const TESTS = 'packages/sandbox/src';
const JAVASCRIPT = `${TESTS}/attacks/javascript.test.ts`;
const NATIVE = `${TESTS}/attacks/native.test.ts`;
const RESOURCES = `${TESTS}/resources.test.ts`;
const EGRESS = `${TESTS}/egress`;
const FRAMES = `${TESTS}/hostile-frames.test.ts`;
const PACKAGES = `${TESTS}/packages`;

export const ATTACKS: readonly AttackRow[] = [
  {
    id: '1',
    attempt: 'Read the environment, /proc/1/environ, /proc/self/environ, files of other processes in /proc',
    expected: 'Seven harmless variables; ENOENT or EACCES',
    tiers: ALL,
    shownBy: [JAVASCRIPT],
    atStart: true,
  },
  {
    id: '2',
    attempt:
      'Read files of the host: /etc/shadow, /root, the data directory, the directories of other sandboxes',
    expected: 'ENOENT or EACCES',
    tiers: ALL,
    shownBy: [JAVASCRIPT],
    atStart: true,
  },
  {
    id: '3',
    attempt: 'Learn of files of the host: stat, ../../.., symbolic links in the temporary directory',
    expected: 'ENOENT',
    tiers: KERNEL,
    shownBy: [JAVASCRIPT],
    atStart: true,
  },
  {
    id: '4',
    attempt:
      'Write its own code, the program of the children, the Node.js binary, the directory of its socket',
    expected: 'EROFS, EACCES or EPERM',
    tiers: ALL,
    shownBy: [JAVASCRIPT],
    atStart: true,
  },
  {
    id: '5',
    attempt: 'Start a process: spawn, exec, fork, cluster',
    expected: 'An error; no process',
    tiers: ALL,
    shownBy: [JAVASCRIPT],
    atStart: true,
  },
  {
    id: '6',
    attempt: 'Replace itself by another Node.js without its flags: process.execve',
    expected: 'It stays in the sandbox; the call fails',
    tiers: KERNEL,
    shownBy: [JAVASCRIPT],
  },
  {
    id: '7',
    attempt: 'Native: unshare, setns, mount, pivot_root, chroot, open_by_handle_at, fsopen, move_mount',
    expected: 'EPERM',
    tiers: KERNEL,
    shownBy: [NATIVE],
    atStart: true,
  },
  {
    id: '8',
    attempt: 'Native: ptrace, process_vm_readv, pidfd_open, signals to processes of the host',
    expected: 'EPERM or ESRCH',
    tiers: KERNEL,
    shownBy: [NATIVE],
    atStart: true,
  },
  {
    id: '9',
    attempt:
      'Native: bpf, perf_event_open, userfaultfd, io_uring, keyrings, kernel modules, kexec, personality, memfd_create',
    expected: 'EPERM',
    tiers: KERNEL,
    shownBy: [NATIVE],
  },
  {
    id: '9a',
    attempt: 'Native: sockets of the families ALG, VSOCK, PACKET, NETLINK',
    expected: 'EAFNOSUPPORT',
    tiers: KERNEL,
    shownBy: [NATIVE],
  },
  {
    id: '9b',
    attempt: 'Native: raw fork, vfork, clone, clone3, execveat',
    expected: 'EPERM or ENOSYS',
    tiers: KERNEL,
    shownBy: [NATIVE],
  },
  {
    id: '9c',
    attempt:
      'Native: raise its own limits, priority or capabilities, outlive the platform (prctl), type into a terminal',
    expected: 'EPERM',
    tiers: KERNEL,
    shownBy: [NATIVE],
  },
  {
    id: '10',
    attempt: 'Native: TCP and UDP sockets, of IPv4 and IPv6, to anything, loopback too',
    expected: 'EAFNOSUPPORT',
    tiers: KERNEL,
    shownBy: [NATIVE],
    atStart: true,
  },
  {
    id: '15',
    attempt: 'Connect to unix sockets of the host, by a path that everybody may write or by an abstract name',
    expected: 'ENOENT, EPERM or ECONNREFUSED',
    tiers: KERNEL,
    shownBy: [NATIVE],
  },
  {
    id: '16',
    attempt: 'Change, remove or replace the socket of its own network relay',
    expected: 'EROFS, EACCES or EPERM',
    tiers: KERNEL,
    shownBy: [NATIVE],
  },
  {
    id: '18',
    attempt: 'Never end: for (;;), a slow regular expression, Atomics.wait, a promise that never settles',
    expected: 'Killed at the deadline; the next call works',
    tiers: ALL,
    shownBy: [JAVASCRIPT],
  },
  {
    id: '19',
    attempt: 'Take memory: heap, buffers, shared buffers, WebAssembly, strings',
    expected: 'Only its own process ends or gets a RangeError',
    tiers: ALL,
    shownBy: [JAVASCRIPT],
  },
  {
    id: '20',
    attempt: 'Open descriptors or start threads without end',
    expected: 'EMFILE; no thread beyond the limit starts',
    tiers: KERNEL,
    shownBy: [JAVASCRIPT],
  },
  {
    id: '21',
    attempt: 'Fill the temporary directory with bytes or files, also with deleted or unreadable ones',
    expected: 'ENOSPC, or the process is killed',
    tiers: KERNEL,
    shownBy: [JAVASCRIPT, RESOURCES],
  },
  {
    id: '21a',
    attempt:
      'Native: hide memory, open files or signals from the figures of the kernel (shared mappings, descriptor tables, F_SETSIG)',
    expected: 'EPERM',
    tiers: KERNEL,
    shownBy: [`${TESTS}/attacks/hidden-resources.test.ts`],
  },
  {
    id: '26',
    attempt: 'End itself: exit, abort, closing its descriptors, an uncaught error',
    expected: 'One call fails; the next one has a new process',
    tiers: ALL,
    shownBy: [JAVASCRIPT],
  },
  {
    id: '26a',
    attempt: 'Stop itself: SIGSTOP or SIGTSTP, from a thread, or native to one thread',
    expected: 'Killed at the deadline, or EPERM; the next call works',
    tiers: ALL,
    shownBy: [`${TESTS}/attacks/stopped.test.ts`],
  },
  {
    id: '27',
    attempt: 'Leave globals or files for another source',
    expected: 'The other one finds nothing',
    tiers: ALL,
    shownBy: [JAVASCRIPT],
  },
  {
    id: '30',
    attempt: 'Open the inspector, by inspector.open or SIGUSR1',
    expected: 'Nothing listens',
    tiers: ALL,
    shownBy: [JAVASCRIPT],
  },
  {
    id: '31',
    attempt: 'Go on when the platform was killed',
    expected: 'The kernel ends it',
    tiers: ALL,
    shownBy: [`${TESTS}/orphans.test.ts`],
  },
  {
    id: '32',
    attempt: 'Share memory or messages with others: System V, POSIX queues, /dev/shm',
    expected: 'EPERM or ENOENT',
    tiers: KERNEL,
    shownBy: [NATIVE],
  },
  {
    id: '10a',
    attempt:
      'Go around the socket layer: patched prototypes and accessors, handles of net, dgram and dns, internal bindings',
    expected: 'No connection; a listener on loopback hears nothing',
    tiers: KERNEL,
    shownBy: [`${EGRESS}/bypass.test.ts`],
  },
  {
    id: '11',
    attempt: 'Connect to metadata services, private, loopback and link-local addresses',
    expected: 'EACCES, with the name of the setting',
    tiers: ALL,
    shownBy: [`${EGRESS}/addresses.test.ts`],
  },
  {
    id: '12',
    attempt:
      'The same in other notations: 127.1, 2130706433, 0x7f.1, [::ffff:7f00:1], [64:ff9b::a9fe:a9fe], 0.0.0.0',
    expected: 'EACCES',
    tiers: ALL,
    shownBy: [`${EGRESS}/addresses.test.ts`, `${EGRESS}/policy.test.ts`],
  },
  {
    id: '13',
    attempt: 'Names that resolve to another address the second time, or to public and private addresses',
    expected: 'Only a checked address is dialled',
    tiers: ALL,
    shownBy: [`${EGRESS}/relay.test.ts`],
  },
  {
    id: '14',
    attempt:
      "The platform's own listeners, names, broker and databases, also where an allow-list covers them",
    expected: 'EACCES',
    tiers: ALL,
    shownBy: [`${EGRESS}/addresses.test.ts`, `${EGRESS}/policy.test.ts`],
  },
  {
    id: '17',
    attempt: 'Ten thousand connections, slow preambles, unlimited bytes, mail servers',
    expected: 'An error that names the limit; other sandboxes keep their network',
    tiers: ALL,
    shownBy: [`${EGRESS}/relay-limits.test.ts`, `${EGRESS}/relay-process.test.ts`],
  },
  {
    id: '22',
    attempt: 'Go on after the end of its run: timers, endless loops, emits, frames, memory',
    expected: 'Stopped; late frames are dropped, too many of them end the process',
    tiers: ALL,
    shownBy: [RESOURCES, `${TESTS}/after-its-end.test.ts`],
  },
  {
    id: '23',
    attempt: 'Frames that are huge, incomplete, deeply nested or garbage; very many emits and log lines',
    expected: 'The process is killed at the limit; the event loop of the platform goes on',
    tiers: ALL,
    shownBy: [FRAMES, `${TESTS}/frame-channel.test.ts`, `${TESTS}/frame-reader.test.ts`],
  },
  {
    id: '24',
    attempt: 'Forge frames: ends, sources of others, second responses, processor time',
    expected: 'Nothing is gained: identity comes from the channel, figures from the kernel',
    tiers: ALL,
    shownBy: [FRAMES, RESOURCES],
  },
  {
    id: '25',
    attempt: 'Patched globals, getters and cycles in events, __proto__ keys',
    expected: 'An error of its own run',
    tiers: ALL,
    shownBy: [`${TESTS}/sandbox.test.ts`, `${TESTS}/frame-schema.test.ts`],
  },
  {
    id: '28',
    attempt:
      'Packages: file:, link:, git: and http: dependencies at any depth, foreign tarballs, scripts, settings',
    expected: 'A 400 that names package and dependency; nothing is fetched, linked or run',
    tiers: ALL,
    shownBy: [`${PACKAGES}/foreign-dependencies.test.ts`, `${PACKAGES}/hostile-packages.test.ts`],
  },
  {
    id: '28a',
    attempt: 'Read files of the host while its code is compiled; code that no compiler can take',
    expected: 'Refused; other owners compile on',
    tiers: ALL,
    shownBy: [`${PACKAGES}/compile-hostile.test.ts`, `${PACKAGES}/fairness.test.ts`],
  },
  {
    id: '28b',
    attempt:
      'Take over the package manager or the compiler: read files of the platform or of other jails, connect to others than the gateway, signal processes, become root, leave processes behind, fill the disk',
    expected: 'ENOENT, EACCES, EPERM or EAFNOSUPPORT; its user id is used again when no process has it',
    tiers: KERNEL,
    shownBy: [
      `${PACKAGES}/jail/attacks.test.ts`,
      `${PACKAGES}/jail/launcher.test.ts`,
      `${PACKAGES}/jail/user-processes.test.ts`,
    ],
  },
  {
    id: '33',
    attempt: 'Print or throw secret props; learn paths of the host from stacks',
    expected: 'Masked; only paths of the sandbox',
    tiers: ALL,
    shownBy: ['services/runner/src/secrets.test.ts', `${TESTS}/sandbox.test.ts`],
  },
  {
    id: '34',
    attempt: 'Hold every run permit, hook, compiler or process start with runs that never end',
    expected: 'Only the owner at its limit waits',
    tiers: ALL,
    shownBy: ['services/runner/src/run-permits.test.ts', `${TESTS}/pool.test.ts`],
  },
  {
    id: '35',
    attempt:
      'Set headers for the origin of the API: cookies, HSTS, Clear-Site-Data, Alt-Svc, scripts in HTML',
    expected: 'Dropped, with a warning in $logs; HTML is sandboxed',
    tiers: ALL,
    shownBy: ['services/runner/src/responses.test.ts', 'services/gateway/src/ingest.test.ts'],
  },
  {
    id: '36',
    attempt: 'Run as root of the host when the platform does',
    expected: 'A user id of its own, or a refusal to start',
    tiers: ALL,
    shownBy: [`${TESTS}/tiers/users.test.ts`],
  },
];

/** @throws Error when there is no row of this id for this tier */
export function attack(id: string, tier: TierName): AttackRow {
  const row = ATTACKS.find((one) => one.id === id && one.tiers.includes(tier));
  if (!row) throw new Error(`There is no row ${id} for tier ${tier}.`);
  return row;
}
