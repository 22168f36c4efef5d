import {
  ALLOWED,
  type Arch,
  CLONE3,
  CONDITIONAL,
  FORK_CALLS,
  LISTEN_CALLS,
  NEWEST_KNOWN,
} from './seccomp-calls.ts';

/**
 * A seccomp filter as classic BPF: an allow-list. Other calls fail with EPERM; calls newer than the list fail with
 * ENOSYS, so that the C library falls back to older ones. User code may use files, memory, threads and unix sockets. It
 * must not start processes, trace, mount, load code into the kernel, or open network sockets.
 */

const AUDIT_ARCH: Record<Arch, number> = { x64: 0xc000003e, arm64: 0xc00000b7 };
/** The x32 calls of x64 have other numbers, which would bypass the list. */
const X32 = 0x40000000;
const CLONE_THREAD = 0x00010000;
/** Threads share one descriptor table and one working directory, so that open files can be counted and limited. */
const [CLONE_FS, CLONE_FILES] = [0x00000200, 0x00000400];
/** All CLONE_NEW* flags that clone takes. */
const CLONE_NAMESPACES = 0x7e020000;
const [AF_UNIX, AF_INET] = [1, 2];
/** Mask for the type of a socket without its flags. */
const SOCK_TYPE = 0xf;
const SOCK_STREAM = 1;
const IPPROTO_TCP = 6;
const TCP_ULP = 31;
const MSG_FASTOPEN = 0x20000000;

/** Files, pipes and sockets: FIOCLEX, FIONCLEX, FIONBIO, FIONREAD. Terminals: TCGETS, TIOCGWINSZ. */
const IOCTLS = [0x5451, 0x5450, 0x5421, 0x541b, 0x5401, 0x5413];
/** PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS, PR_SET_VMA. */
const PRCTLS = [3, 15, 16, 21, 23, 39, 0x53564d41];

/**
 * F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_GETOWN, F_DUPFD_CLOEXEC, F_GETPIPE_SZ, F_GET_SEALS. Not those
 * that make the kernel send signals (F_SETOWN, F_SETSIG, F_NOTIFY, F_SETLEASE): SIGCONT from a socket would resume a
 * process that the platform has stopped.
 */
const FCNTLS = [0, 1, 2, 3, 4, 5, 9, 1030, 1032, 1034];
/** F_SETLK and F_SETLKW: locks of a process, which do not exclude the process itself. */
const PROCESS_LOCKS = [6, 7];
/** F_OFD_GETLK, F_OFD_SETLK and F_OFD_SETLKW: locks of an open file. */
const OPEN_FILE_LOCKS = [36, 37, 38];
/** No flag, and CLOSE_RANGE_CLOEXEC; not CLOSE_RANGE_UNSHARE, which gives a thread its own descriptor table. */
const CLOSE_RANGE_FLAGS = [0, 4];
const [MAP_SHARED, MAP_ANONYMOUS, MAP_HUGETLB] = [0x01, 0x20, 0x40000];
const [MADV_HUGEPAGE, MADV_COLLAPSE] = [14, 25];

const SIGCONT = 18;
/** Without O_DIRECTORY, which is part of it. */
const O_TMPFILE = 0x400000;

const [EPERM, EINVAL, ENOSYS, EOPNOTSUPP, EAFNOSUPPORT] = [1, 22, 38, 95, 97];

const LOAD = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP_EQUAL = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_SET = 0x45; // BPF_JMP | BPF_JSET | BPF_K
const JUMP_GREATER = 0x25; // BPF_JMP | BPF_JGT | BPF_K
const JUMP_AT_LEAST = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const AND = 0x54; // BPF_ALU | BPF_AND | BPF_K
const RETURN = 0x06; // BPF_RET | BPF_K
const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const refuse = (errno: number) => 0x00050000 | errno;

/** Offsets in struct seccomp_data; arguments have 64 bits, of which the filter reads the lower half. */
const [NUMBER, ARCH, ARG0, ARG1, ARG2, ARG3] = [0, 4, 16, 24, 32, 40];

type Instruction = [code: number, jumpTrue: number, jumpFalse: number, value: number];

const statement = (code: number, value: number): Instruction => [code, 0, 0, value];

type Conditions = Record<string, Instruction[]>;

/** `skip`: the call has no effect and succeeds. `lack`: it fails as on a kernel without this command. */
type End = 'allow' | 'refuse' | 'skip' | 'lack';
/** Jumps to an end, or continues with the next step. */
type Step = [code: number, value: number, ifTrue?: End | undefined, ifFalse?: End];

/** The instructions after the test of the call's number. */
function assemble(errno: number, steps: readonly Step[], ends: End[] = ['allow', 'refuse']): Instruction[] {
  const distance = (from: number, end?: End) => (end ? steps.length - 1 - from + ends.indexOf(end) : 0);
  const verdicts = { allow: ALLOW, refuse: refuse(errno), skip: refuse(0), lack: refuse(EINVAL) };
  return [
    ...steps.map(
      ([code, value, ifTrue, ifFalse], at): Instruction => [
        code,
        distance(at, ifTrue),
        distance(at, ifFalse),
        value,
      ],
    ),
    ...ends.map((end) => statement(RETURN, verdicts[end])),
  ];
}

const each = (values: readonly number[], end: End) => values.map((value): Step => [JUMP_EQUAL, value, end]);

const oneOf = (argument: number, values: readonly number[], otherwise: number): Instruction[] =>
  assemble(otherwise, [[LOAD, argument], ...each(values, 'allow')], ['refuse', 'allow']);

/** Datagrams to a socket that nobody reads are, like connections that nobody accepts, hidden kernel memory. */
const UNIX_STREAM = assemble(EAFNOSUPPORT, [
  [LOAD, ARG0],
  [JUMP_EQUAL, AF_UNIX, undefined, 'refuse'],
  [LOAD, ARG1],
  [AND, SOCK_TYPE],
  [JUMP_EQUAL, SOCK_STREAM, undefined, 'refuse'],
]);

/**
 * Any signal but the one that would resume the process while the platform has stopped it. Processes outside of the
 * sandbox are out of reach by the namespace or Landlock.
 */
const anySignalBut = (argument: number, signal: number) =>
  assemble(EPERM, [
    [LOAD, argument],
    [JUMP_EQUAL, signal, 'refuse'],
  ]);

/** The launcher sees that the temporary directory is in use by a change of the directory, which O_TMPFILE is not. */
const anyFlagsBut = (argument: number, flag: number) =>
  assemble(EOPNOTSUPP, [
    [LOAD, argument],
    [JUMP_SET, flag, 'refuse'],
  ]);

const CONDITIONS: Conditions = {
  // Threads only.
  clone: assemble(EPERM, [
    [LOAD, ARG0],
    [JUMP_SET, CLONE_THREAD, undefined, 'refuse'],
    [JUMP_SET, CLONE_FS, undefined, 'refuse'],
    [JUMP_SET, CLONE_FILES, undefined, 'refuse'],
    [JUMP_SET, CLONE_NAMESPACES, 'refuse'],
  ]),
  // Unmapping single pages does not free shared anonymous memory, and huge pages come from a pool of the machine.
  // Neither is part of the resident size, which the platform limits.
  mmap: assemble(EPERM, [
    [LOAD, ARG3],
    [JUMP_SET, MAP_HUGETLB, 'refuse'],
    [JUMP_SET, MAP_ANONYMOUS, undefined, 'allow'],
    [JUMP_SET, MAP_SHARED, 'refuse'],
  ]),
  close_range: oneOf(ARG2, CLOSE_RANGE_FLAGS, EPERM),
  // The number of locks of a file has no limit: kernel memory that no figure shows. Nothing but the process itself can
  // write to the files that it can lock, so a lock of the process is always granted and excludes nobody.
  fcntl: assemble(
    EPERM,
    [
      [LOAD, ARG1],
      ...each(FCNTLS, 'allow'),
      ...each(PROCESS_LOCKS, 'skip'),
      ...each(OPEN_FILE_LOCKS, 'lack'),
    ],
    ['refuse', 'allow', 'skip', 'lack'],
  ),
  socket: UNIX_STREAM,
  socketpair: UNIX_STREAM,
  ioctl: oneOf(ARG1, IOCTLS, EPERM),
  prctl: oneOf(ARG0, PRCTLS, EPERM),
  // Only the limits of the process itself, which it cannot raise.
  prlimit64: oneOf(ARG0, [0], EPERM),
  kill: anySignalBut(ARG1, SIGCONT),
  tkill: anySignalBut(ARG1, SIGCONT),
  tgkill: anySignalBut(ARG2, SIGCONT),
  open: anyFlagsBut(ARG1, O_TMPFILE),
  openat: anyFlagsBut(ARG2, O_TMPFILE),
  // Its flags are in memory, which a filter cannot read.
  openat2: [statement(RETURN, refuse(ENOSYS))],
  // It takes a disk faster than its use is measured. With this error, the C library writes instead.
  fallocate: [statement(RETURN, refuse(EOPNOTSUPP))],
  // A huge page of which all but one small page is unmapped stays in memory, and counts as the small one.
  madvise: assemble(EINVAL, [[LOAD, ARG2], ...each([MADV_HUGEPAGE, MADV_COLLAPSE], 'refuse')]),
  // A byte that is sent from a file holds a page of it, also after the file is gone. With this error, libraries copy.
  sendfile: [statement(RETURN, refuse(EINVAL))],
  // SO_SNDBUF: megabytes of the kernel for each socket (net.core.wmem_max). Unix sockets need no options.
  setsockopt: [statement(RETURN, refuse(EPERM))],
};

/**
 * Programs with a filter: components, and the compiler and package manager in the jail. `install-by-loopback`: the
 * package manager where a program beside it, on a private loopback, forwards to the gateway.
 */
export type FilterPurpose = 'component' | 'compile' | 'install' | 'install-by-loopback';

/**
 * The compiler and the package manager may start processes. Threads share what they do in CONDITIONS, so
 * that the launcher can count open files. Namespaces are not allowed.
 */
const FORKING: Conditions = {
  clone: assemble(EPERM, [
    [LOAD, ARG0],
    [JUMP_SET, CLONE_NAMESPACES, 'refuse'],
    [JUMP_SET, CLONE_THREAD, undefined, 'allow'],
    [JUMP_SET, CLONE_FS, undefined, 'refuse'],
    [JUMP_SET, CLONE_FILES, undefined, 'refuse'],
  ]),
  // Their processes may exclude each other.
  fcntl: oneOf(ARG1, [...FCNTLS, ...PROCESS_LOCKS, ...OPEN_FILE_LOCKS], EPERM),
};

/**
 * The package manager may open TCP connections; Landlock limits the port where there is no private loopback. The filter
 * refuses what Landlock does not cover: MPTCP, SMC and connecting by sending (TCP Fast Open).
 */
const CONNECTING: Conditions = {
  socket: assemble(EAFNOSUPPORT, [
    [LOAD, ARG1],
    [AND, SOCK_TYPE],
    [JUMP_EQUAL, SOCK_STREAM, undefined, 'refuse'],
    [LOAD, ARG0],
    [JUMP_EQUAL, AF_UNIX, 'allow'],
    [JUMP_EQUAL, AF_INET, undefined, 'refuse'],
    [LOAD, ARG2],
    // For streams, protocol 0 is TCP.
    [JUMP_EQUAL, 0, 'allow'],
    [JUMP_EQUAL, IPPROTO_TCP, undefined, 'refuse'],
  ]),
  sendto: assemble(EPERM, [
    [LOAD, ARG3],
    [JUMP_SET, MSG_FASTOPEN, 'refuse'],
  ]),
  setsockopt: assemble(EPERM, [
    [LOAD, ARG1],
    [JUMP_EQUAL, IPPROTO_TCP, undefined, 'allow'],
    [LOAD, ARG2],
    [JUMP_EQUAL, TCP_ULP, 'refuse'],
  ]),
};

const RULES: Record<FilterPurpose, { more: Conditions; calls?: typeof FORK_CALLS }> = {
  component: { more: {} },
  compile: { more: FORKING, calls: FORK_CALLS },
  install: { more: { ...FORKING, ...CONNECTING }, calls: FORK_CALLS },
  'install-by-loopback': {
    more: { ...FORKING, ...CONNECTING },
    calls: { ...FORK_CALLS, ...LISTEN_CALLS },
  },
};

function compile(arch: Arch, purpose: FilterPurpose): Instruction[] {
  const column = arch === 'x64' ? 0 : 1;
  const { more, calls } = RULES[purpose];
  const conditions = { ...CONDITIONS, ...more };
  const known = { ...ALLOWED, ...CONDITIONAL, ...calls };
  const numberOf = (name: string) => known[name as keyof typeof known]?.[column];
  const numbers = Object.keys({ ...ALLOWED, ...calls })
    .filter((name) => !(name in conditions))
    .flatMap((name) => numberOf(name) ?? []);
  return [
    statement(LOAD, ARCH),
    [JUMP_EQUAL, 1, 0, AUDIT_ARCH[arch]],
    statement(RETURN, KILL),
    statement(LOAD, NUMBER),
    ...(arch === 'x64' ? [[JUMP_AT_LEAST, 0, 1, X32] as Instruction, statement(RETURN, refuse(ENOSYS))] : []),
    ...numbers.flatMap((number): Instruction[] => [[JUMP_EQUAL, 0, 1, number], statement(RETURN, ALLOW)]),
    ...Object.entries(conditions).flatMap(([name, condition]): Instruction[] => {
      const number = numberOf(name);
      return number === undefined ? [] : [[JUMP_EQUAL, 0, condition.length, number], ...condition];
    }),
    [JUMP_EQUAL, 1, 0, CLONE3],
    [JUMP_GREATER, 0, 1, NEWEST_KNOWN],
    statement(RETURN, refuse(ENOSYS)),
    statement(RETURN, refuse(EPERM)),
  ];
}

/** The filter in the format of the kernel. @throws Error for an unknown processor */
export function seccompFilter(arch: string, purpose: FilterPurpose = 'component'): Buffer {
  if (arch !== 'x64' && arch !== 'arm64') throw new Error(`There is no seccomp filter for ${arch}.`);
  const program = compile(arch, purpose);
  const bytes = Buffer.alloc(program.length * 8);
  program.forEach(([code, jumpTrue, jumpFalse, value], index) => {
    bytes.writeUInt16LE(code, index * 8);
    bytes[index * 8 + 2] = jumpTrue;
    bytes[index * 8 + 3] = jumpFalse;
    bytes.writeUInt32LE(value >>> 0, index * 8 + 4);
  });
  return bytes;
}
