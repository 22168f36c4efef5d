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
  /** The self-test looks at it at every start. */
  atStart?: true;
}

const KERNEL: readonly TierName[] = ['bubblewrap', 'launcher'];
const ALL: readonly TierName[] = ['bubblewrap', 'launcher', 'none'];

export const ATTACKS: readonly AttackRow[] = [
  {
    id: '1',
    attempt: 'Read the environment, /proc/1/environ, /proc/self/environ, files of other processes in /proc',
    expected: 'Seven harmless variables; ENOENT or EACCES',
    tiers: ALL,
    atStart: true,
  },
  {
    id: '2',
    attempt:
      'Read files of the host: /etc/shadow, /root, the data directory, the directories of other sandboxes',
    expected: 'ENOENT or EACCES',
    tiers: ALL,
    atStart: true,
  },
  {
    id: '3',
    attempt: 'Learn of files of the host: stat, ../../.., symbolic links in the temporary directory',
    expected: 'ENOENT',
    tiers: KERNEL,
    atStart: true,
  },
  {
    id: '4',
    attempt:
      'Write its own code, the program of the children, the Node.js binary, the directory of its socket',
    expected: 'EROFS, EACCES or EPERM',
    tiers: ALL,
    atStart: true,
  },
  {
    id: '5',
    attempt: 'Start a process: spawn, exec, fork, cluster',
    expected: 'An error; no process',
    tiers: ALL,
    atStart: true,
  },
  {
    id: '6',
    attempt: 'Replace itself by another Node.js without its flags: process.execve',
    expected: 'It stays in the sandbox; the call fails',
    tiers: KERNEL,
  },
  {
    id: '7',
    attempt: 'Native: unshare, setns, mount, pivot_root, chroot, open_by_handle_at, fsopen, move_mount',
    expected: 'EPERM',
    tiers: KERNEL,
    atStart: true,
  },
  {
    id: '8',
    attempt: 'Native: ptrace, process_vm_readv, pidfd_open, signals to processes of the host',
    expected: 'EPERM or ESRCH',
    tiers: KERNEL,
    atStart: true,
  },
  {
    id: '9',
    attempt:
      'Native: bpf, perf_event_open, userfaultfd, io_uring, keyrings, kernel modules, kexec, personality, memfd_create',
    expected: 'EPERM',
    tiers: KERNEL,
  },
  {
    id: '9a',
    attempt: 'Native: sockets of the families ALG, VSOCK, PACKET, NETLINK',
    expected: 'EAFNOSUPPORT',
    tiers: KERNEL,
  },
  {
    id: '9b',
    attempt: 'Native: raw fork, vfork, clone, clone3, execveat',
    expected: 'EPERM or ENOSYS',
    tiers: KERNEL,
  },
  {
    id: '9c',
    attempt:
      'Native: raise its own limits, priority or capabilities, outlive the platform (prctl), type into a terminal',
    expected: 'EPERM',
    tiers: KERNEL,
  },
  {
    id: '10',
    attempt: 'Native: TCP and UDP sockets, of IPv4 and IPv6, to anything, loopback too',
    expected: 'EAFNOSUPPORT',
    tiers: KERNEL,
    atStart: true,
  },
  {
    id: '15',
    attempt: 'Connect to unix sockets of the host, by a path that everybody may write or by an abstract name',
    expected: 'ENOENT, EPERM or ECONNREFUSED',
    tiers: KERNEL,
  },
  {
    id: '16',
    attempt: 'Change, remove or replace the socket of its own network relay',
    expected: 'EROFS, EACCES or EPERM',
    tiers: KERNEL,
  },
  {
    id: '18',
    attempt: 'Never end: for (;;), a slow regular expression, Atomics.wait, a promise that never settles',
    expected: 'Killed at the deadline; the next call works',
    tiers: ALL,
  },
  {
    id: '19',
    attempt: 'Take memory: heap, buffers, shared buffers, WebAssembly, strings',
    expected: 'Only its own process ends or gets a RangeError',
    tiers: ALL,
  },
  {
    id: '20',
    attempt: 'Open descriptors or start threads without end',
    expected: 'EMFILE; the process ends at its limit of threads',
    tiers: KERNEL,
  },
  {
    id: '21',
    attempt: 'Fill the temporary directory with bytes or files, also with deleted or unreadable ones',
    expected: 'ENOSPC, or the process is killed',
    tiers: KERNEL,
  },
  {
    id: '26',
    attempt: 'End or stop itself: exit, abort, SIGSTOP, closing its descriptors, an uncaught error',
    expected: 'One call fails; the next one has a new process',
    tiers: ALL,
  },
  {
    id: '27',
    attempt: 'Leave globals or files for another source',
    expected: 'The other one finds nothing',
    tiers: ALL,
  },
  {
    id: '30',
    attempt: 'Open the inspector, by inspector.open or SIGUSR1',
    expected: 'Nothing listens',
    tiers: ALL,
  },
  {
    id: '31',
    attempt: 'Go on when the platform was killed',
    expected: 'The kernel ends it',
    tiers: ALL,
  },
  {
    id: '32',
    attempt: 'Share memory or messages with others: System V, POSIX queues, /dev/shm',
    expected: 'EPERM or ENOENT',
    tiers: KERNEL,
  },
];

/** @throws Error when there is no row of this id for this tier */
export function attack(id: string, tier: TierName): AttackRow {
  const row = ATTACKS.find((one) => one.id === id && one.tiers.includes(tier));
  if (!row) throw new Error(`There is no row ${id} for tier ${tier}.`);
  return row;
}
