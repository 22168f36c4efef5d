import { ALLOWED, type Arch, CLONE3, CONDITIONAL, FORK_CALLS, NEWEST_KNOWN } from './seccomp-calls.ts';

/**
 * A seccomp filter as classic BPF. It is a list of what is allowed; every other call fails with EPERM, and a call that
 * is newer than the list with ENOSYS, so that the C library falls back to an older one. User code may do what a Node
 * process does with files, memory, threads and unix sockets. It may not start processes, trace, mount, load into the
 * kernel, or open sockets of a network.
 */

const AUDIT_ARCH: Record<Arch, number> = { x64: 0xc000003e, arm64: 0xc00000b7 };
/** The x32 calls of x64 would go around the numbers of the list. */
const X32 = 0x40000000;
const CLONE_THREAD = 0x00010000;
/** One table of descriptors for all threads: what is open can be counted, and is limited. */
const CLONE_FILES = 0x00000400;
/** All CLONE_NEW* flags that clone takes. */
const CLONE_NAMESPACES = 0x7e020000;
const [AF_UNIX, AF_INET] = [1, 2];
/** What of a socket's type is not a flag. */
const SOCK_TYPE = 0xf;
const SOCK_STREAM = 1;
const IPPROTO_TCP = 6;
const TCP_ULP = 31;
const MSG_FASTOPEN = 0x20000000;

/** Of files, pipes and sockets: FIOCLEX, FIONCLEX, FIONBIO, FIONREAD; of terminals: TCGETS, TIOCGWINSZ. */
const IOCTLS = [0x5451, 0x5450, 0x5421, 0x541b, 0x5401, 0x5413];
/** PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS, PR_SET_VMA. */
const PRCTLS = [3, 15, 16, 21, 23, 39, 0x53564d41];

/**
 * F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW, F_GETOWN, F_OFD_*, F_DUPFD_CLOEXEC,
 * F_GETPIPE_SZ, F_GET_SEALS. Not those that make the kernel send signals (F_SETOWN, F_SETSIG, F_NOTIFY, F_SETLEASE):
 * SIGCONT from a socket would resume a process that the platform has stopped.
 */
const FCNTLS = [0, 1, 2, 3, 4, 5, 6, 7, 9, 36, 37, 38, 1030, 1032, 1034];
/** None, and CLOSE_RANGE_CLOEXEC; not CLOSE_RANGE_UNSHARE, which gives a thread a table of its own. */
const CLOSE_RANGE_FLAGS = [0, 4];
const [MAP_SHARED, MAP_ANONYMOUS, MAP_HUGETLB] = [0x01, 0x20, 0x40000];

const [EPERM, ENOSYS, EAFNOSUPPORT] = [1, 38, 97];

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

/** Offsets in struct seccomp_data; arguments are 64 bits, of which those looked at use the lower half. */
const [NUMBER, ARCH, ARG0, ARG1, ARG2, ARG3] = [0, 4, 16, 24, 32, 40];

type Instruction = [code: number, jumpTrue: number, jumpFalse: number, value: number];

const statement = (code: number, value: number): Instruction => [code, 0, 0, value];

type Conditions = Record<string, Instruction[]>;

type End = 'allow' | 'refuse';
/** Jumps to one of the ends; without one, the next step follows. */
type Step = [code: number, value: number, ifTrue?: End | undefined, ifFalse?: End];

/** Instructions that follow the test of a call's number. */
function assemble(errno: number, steps: readonly Step[], ends: End[] = ['allow', 'refuse']): Instruction[] {
  const distance = (from: number, end?: End) => (end ? steps.length - 1 - from + ends.indexOf(end) : 0);
  return [
    ...steps.map(
      ([code, value, ifTrue, ifFalse], at): Instruction => [
        code,
        distance(at, ifTrue),
        distance(at, ifFalse),
        value,
      ],
    ),
    ...ends.map((end) => statement(RETURN, end === 'allow' ? ALLOW : refuse(errno))),
  ];
}

function oneOf(argument: number, values: readonly number[], otherwise: number): Instruction[] {
  const tests = values.map((value): Step => [JUMP_EQUAL, value, 'allow']);
  return assemble(otherwise, [[LOAD, argument], ...tests], ['refuse', 'allow']);
}

const CONDITIONS: Conditions = {
  // Threads only.
  clone: assemble(EPERM, [
    [LOAD, ARG0],
    [JUMP_SET, CLONE_THREAD, undefined, 'refuse'],
    [JUMP_SET, CLONE_FILES, undefined, 'refuse'],
    [JUMP_SET, CLONE_NAMESPACES, 'refuse'],
  ]),
  // Shared anonymous memory stays when it is unmapped page by page, and huge pages are of a pool of the machine: neither
  // is part of the resident size that the platform limits.
  mmap: assemble(EPERM, [
    [LOAD, ARG3],
    [JUMP_SET, MAP_HUGETLB, 'refuse'],
    [JUMP_SET, MAP_ANONYMOUS, undefined, 'allow'],
    [JUMP_SET, MAP_SHARED, 'refuse'],
  ]),
  close_range: oneOf(ARG2, CLOSE_RANGE_FLAGS, EPERM),
  fcntl: oneOf(ARG1, FCNTLS, EPERM),
  socket: oneOf(ARG0, [AF_UNIX], EAFNOSUPPORT),
  socketpair: oneOf(ARG0, [AF_UNIX], EAFNOSUPPORT),
  ioctl: oneOf(ARG1, IOCTLS, EPERM),
  prctl: oneOf(ARG0, PRCTLS, EPERM),
  // Its own limits only; it cannot raise them.
  prlimit64: oneOf(ARG0, [0], EPERM),
};

/** The programs that a filter is for: components, and those of the jail of the packager. */
export type FilterPurpose = 'component' | 'compile' | 'install';

/**
 * The compiler and the package manager are processes that others start: processes are allowed, and the launcher counts
 * the open files of each. Threads share one table of descriptors, as in CONDITIONS. There are no namespaces.
 */
const FORKING: Conditions = {
  clone: assemble(EPERM, [
    [LOAD, ARG0],
    [JUMP_SET, CLONE_NAMESPACES, 'refuse'],
    [JUMP_SET, CLONE_THREAD, undefined, 'allow'],
    [JUMP_SET, CLONE_FILES, undefined, 'refuse'],
  ]),
};

/**
 * The package manager may open TCP connections; to which port, Landlock says. Landlock does not know of MPTCP and SMC,
 * nor of connections that are opened by sending (TCP Fast Open), nor of listening without bind().
 */
const CONNECTING: Conditions = {
  socket: assemble(EAFNOSUPPORT, [
    [LOAD, ARG0],
    [JUMP_EQUAL, AF_UNIX, 'allow'],
    [JUMP_EQUAL, AF_INET, undefined, 'refuse'],
    [LOAD, ARG1],
    [AND, SOCK_TYPE],
    [JUMP_EQUAL, SOCK_STREAM, undefined, 'refuse'],
    [LOAD, ARG2],
    // 0 is TCP for a stream.
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
const NOT_CONNECTING = ['bind', 'listen', 'accept', 'accept4'];

const RULES: Record<
  FilterPurpose,
  { more: Conditions; without: readonly string[]; calls?: typeof FORK_CALLS }
> = {
  component: { more: {}, without: [] },
  compile: { more: FORKING, without: [], calls: FORK_CALLS },
  install: { more: { ...FORKING, ...CONNECTING }, without: NOT_CONNECTING, calls: FORK_CALLS },
};

function compile(arch: Arch, purpose: FilterPurpose): Instruction[] {
  const column = arch === 'x64' ? 0 : 1;
  const { more, without, calls } = RULES[purpose];
  const conditions = { ...CONDITIONS, ...more };
  const known = { ...ALLOWED, ...CONDITIONAL, ...calls };
  const numberOf = (name: string) => known[name as keyof typeof known]?.[column];
  const numbers = Object.keys({ ...ALLOWED, ...calls })
    .filter((name) => !(name in conditions) && !without.includes(name))
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

/** The filter for this processor: the instructions as the kernel reads them. @throws Error for another processor */
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
