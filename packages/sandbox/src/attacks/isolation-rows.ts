import { ALL, type AttackRow, KERNEL, TESTS } from './row.ts';

const JAVASCRIPT = `${TESTS}/attacks/javascript.test.ts`;
const EXHAUSTION = `${TESTS}/attacks/exhaustion.test.ts`;
const NATIVE = `${TESTS}/attacks/native.test.ts`;
const RESOURCES = `${TESTS}/resources.test.ts`;

/** Attacks on the isolation of the process. */
export const ISOLATION_ROWS: readonly AttackRow[] = [
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
    attempt: 'Detect files of the host: stat, ../../.., symbolic links in the temporary directory',
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
    attempt: 'Replace itself with another Node.js without its flags: process.execve',
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
    attempt: 'Native: TCP and UDP sockets, of IPv4 and IPv6, to any address, including loopback',
    expected: 'EAFNOSUPPORT',
    tiers: KERNEL,
    shownBy: [NATIVE],
    atStart: true,
  },
  {
    id: '15',
    attempt:
      'Connect to unix sockets of the host, by a path that every user may write to, or by an abstract name',
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
    shownBy: [EXHAUSTION],
  },
  {
    id: '19',
    attempt: 'Take memory: heap, buffers, shared buffers, WebAssembly, strings',
    expected: 'Only its own process ends or gets a RangeError',
    tiers: ALL,
    shownBy: [EXHAUSTION],
  },
  {
    id: '19a',
    attempt: 'Take the memory of the machine with many runs or idle processes, each within its limit',
    expected: 'Its own runs end, its new processes wait; runs of other owners go on',
    tiers: ALL,
    shownBy: [`${TESTS}/memory-limit.test.ts`, `${TESTS}/process-memory.test.ts`],
  },
  {
    id: '20',
    attempt: 'Open descriptors or start threads without limit',
    expected: 'EMFILE; no thread beyond the limit starts',
    tiers: KERNEL,
    shownBy: [EXHAUSTION],
  },
  {
    id: '21',
    attempt:
      'Fill the temporary directory with bytes or files, also with deleted, unreadable or moving ones, with directories that held many names, or without writing (native: fallocate)',
    expected: 'ENOSPC or EOPNOTSUPP, or the process is killed',
    tiers: KERNEL,
    shownBy: [RESOURCES, `${TESTS}/tiers/launcher.test.ts`, `${TESTS}/attacks/kernel-memory.test.ts`],
  },
  {
    id: '21a',
    attempt:
      'Native: hide memory, open files or signals from the figures of the kernel (shared mappings, huge pages, descriptor tables, working directories, F_SETSIG, SIGCONT)',
    expected: 'EPERM or EINVAL',
    tiers: KERNEL,
    shownBy: [`${TESTS}/attacks/hidden-resources.test.ts`],
  },
  {
    id: '21b',
    attempt:
      'Native: take memory of the kernel that no figure shows: connections that nobody accepts, datagrams and events that nobody reads, locks of files, large buffers of sockets, pages of files in them, queued signals',
    expected:
      'EPERM, EINVAL or EAFNOSUPPORT, EAGAIN beyond 256 signals; a lock of the process succeeds without effect',
    tiers: KERNEL,
    shownBy: [`${TESTS}/attacks/kernel-memory.test.ts`],
  },
  {
    id: '26',
    attempt: 'End itself: exit, abort, closing its descriptors, an uncaught error',
    expected: 'One call fails; the next one has a new process',
    tiers: ALL,
    shownBy: [EXHAUSTION],
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
    expected: 'Not visible to the other source',
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
    attempt: 'Continue after the platform was killed',
    expected: 'Killed by the kernel',
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
];
