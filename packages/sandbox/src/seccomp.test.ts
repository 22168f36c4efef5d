import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type FilterPurpose, seccompFilter } from './seccomp.ts';
import { ALLOWED, CLONE3, CONDITIONAL, FORK_CALLS, LISTEN_CALLS, NEWEST_KNOWN } from './seccomp-calls.ts';

/** Evaluates a filter like the kernel: classic BPF over {nr, arch, ip, args}. */
function judge(filter: Buffer, arch: number, number: number, args: number[] = []): number {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(number >>> 0, 0);
  data.writeUInt32LE(arch, 4);
  args.forEach((arg, index) => {
    data.writeUInt32LE(arg >>> 0, 16 + index * 8);
  });
  let accumulator = 0;
  for (let at = 0; at < filter.length / 8; at += 1) {
    const code = filter.readUInt16LE(at * 8);
    const [jumpTrue, jumpFalse] = [filter[at * 8 + 2]!, filter[at * 8 + 3]!];
    const value = filter.readUInt32LE(at * 8 + 4);
    if (code === 0x20) accumulator = data.readUInt32LE(value);
    else if (code === 0x54) accumulator &= value;
    else if (code === 0x06) return value;
    else {
      const holds =
        code === 0x15
          ? accumulator === value
          : code === 0x35
            ? accumulator >= value
            : code === 0x25
              ? accumulator > value
              : (accumulator & value) !== 0;
      at += holds ? jumpTrue : jumpFalse;
    }
  }
  throw new Error('the filter has no end');
}

const ALLOW = 0x7fff0000;
/** The call is skipped and its result is 0. */
const DONE = 0x50000;
const [EPERM, EINVAL, ENOSYS, EOPNOTSUPP, EAFNOSUPPORT] = [0x50001, 0x50016, 0x50026, 0x5005f, 0x50061];
const THREAD = 0x3d0f00;

const PROCESSORS = [
  {
    arch: 'x64',
    audit: 0xc000003e,
    other: 0x40000003,
    calls: { read: 0, mmap: 9, clone: 56, socket: 41, futex: 202, connect: 42, openat: 257 },
    denied: { fork: 57, vfork: 58, ptrace: 101, mount: 165, unshare: 272, setns: 308, bpf: 321 },
  },
  {
    arch: 'arm64',
    audit: 0xc00000b7,
    other: 0x40000028,
    calls: { read: 63, mmap: 222, clone: 220, socket: 198, futex: 98, connect: 203, openat: 56 },
    denied: { ptrace: 117, mount: 40, unshare: 97, setns: 268, bpf: 280 },
  },
];

describe.each(PROCESSORS)('the filter for $arch', ({ arch, audit, other, calls, denied }) => {
  const filter = seccompFilter(arch);

  test('allows calls of Node: files, memory, threads, unix sockets', () => {
    for (const number of [calls.read, calls.mmap, calls.futex, calls.connect, calls.openat])
      expect(judge(filter, audit, number)).toBe(ALLOW);
    expect(judge(filter, audit, calls.clone, [THREAD])).toBe(ALLOW);
    expect(judge(filter, audit, calls.socket, [1, 0x80801])).toBe(ALLOW);
  });

  test.each(Object.entries(denied))('refuses %s', (_name, number) => {
    expect(judge(filter, audit, number)).toBe(EPERM);
  });

  test('refuses new processes, and clone3, whose flags it cannot read', () => {
    expect(judge(filter, audit, calls.clone, [17])).toBe(EPERM);
    expect(judge(filter, audit, 435)).toBe(ENOSYS);
  });

  test.each([2, 3, 10, 16, 17, 38, 40])('refuses sockets of family %d', (family) => {
    expect(judge(filter, audit, calls.socket, [family, 1])).toBe(EAFNOSUPPORT);
  });

  // Datagrams and SOCK_SEQPACKET.
  test.each([2, 5])('refuses unix sockets of type %d', (type) => {
    expect(judge(filter, audit, calls.socket, [1, type])).toBe(EAFNOSUPPORT);
  });

  test('kills a process that uses the calls of another processor', () => {
    expect(judge(filter, other, calls.read)).toBe(0x80000000);
  });
});

describe.each(['x64', 'arm64'] as const)('the filter for %s', (arch) => {
  const filter = seccompFilter(arch);
  const audit = arch === 'x64' ? 0xc000003e : 0xc00000b7;
  const column = arch === 'x64' ? 0 : 1;
  const allowed = new Set<number | undefined>(Object.values(ALLOWED).map((numbers) => numbers[column]));
  const conditional = new Map<number | undefined, string>(
    Object.entries(CONDITIONAL).map(([name, numbers]) => [numbers[column], name]),
  );

  test('allows only calls in the list, for any arguments', () => {
    fc.assert(
      fc.property(fc.nat(0x3fffffff), fc.array(fc.nat(), { maxLength: 6 }), (number, args) => {
        fc.pre(!conditional.has(number));
        const verdict = judge(filter, audit, number, args);
        if (allowed.has(number)) return verdict === ALLOW;
        return verdict === (number === CLONE3 || number > NEWEST_KNOWN ? ENOSYS : EPERM);
      }),
    );
    for (let number = 0; number <= NEWEST_KNOWN; number += 1) {
      if (conditional.has(number)) continue;
      const verdict = judge(filter, audit, number);
      expect([number, verdict]).toEqual([
        number,
        allowed.has(number) ? ALLOW : number === CLONE3 ? ENOSYS : EPERM,
      ]);
    }
  });

  test('contains each number once', () => {
    const numbers = [...Object.values(ALLOWED), ...Object.values(CONDITIONAL)].map((entry) => entry[column]);
    const given = numbers.filter((number) => number !== undefined);
    expect(new Set(given).size).toBe(given.length);
  });

  test('checks the arguments of conditional calls', () => {
    const of = (name: keyof typeof CONDITIONAL, ...args: number[]) =>
      judge(filter, audit, CONDITIONAL[name][column]!, args);
    // A thread in a new namespace.
    expect(of('clone', THREAD | 0x10000000)).toBe(EPERM);
    // A thread with its own descriptor table: without CLONE_FILES.
    expect(of('clone', THREAD & ~0x400)).toBe(EPERM);
    // CLOSE_RANGE_CLOEXEC and CLOSE_RANGE_UNSHARE.
    expect(of('close_range', 3, 4, 4)).toBe(ALLOW);
    expect(of('close_range', 3, 4, 2)).toBe(EPERM);
    // F_SETFL, F_SETSIG and F_SETOWN.
    expect(of('fcntl', 0, 4)).toBe(ALLOW);
    expect(of('fcntl', 0, 10)).toBe(EPERM);
    expect(of('fcntl', 0, 8)).toBe(EPERM);
    // F_SETLK and F_SETLKW succeed without effect; F_OFD_GETLK, F_OFD_SETLK and F_OFD_SETLKW are unknown.
    for (const command of [6, 7]) expect(of('fcntl', 0, command)).toBe(DONE);
    for (const command of [36, 37, 38]) expect(of('fcntl', 0, command)).toBe(EINVAL);
    // Private, shared and huge memory; a shared file.
    expect(of('mmap', 0, 4096, 3, 0x22)).toBe(ALLOW);
    expect(of('mmap', 0, 4096, 3, 0x21)).toBe(EPERM);
    expect(of('mmap', 0, 4096, 3, 0x40022)).toBe(EPERM);
    expect(of('mmap', 0, 4096, 3, 0x01)).toBe(ALLOW);
    expect(of('socketpair', 1, 1)).toBe(ALLOW);
    expect(of('socketpair', 1, 2)).toBe(EAFNOSUPPORT);
    expect(of('socketpair', 16, 1)).toBe(EAFNOSUPPORT);
    // SIGTERM and SIGCONT.
    for (const name of ['kill', 'tkill'] as const) {
      expect(of(name, 1, 15)).toBe(ALLOW);
      expect(of(name, 1, 18)).toBe(EPERM);
    }
    expect(of('tgkill', 1, 18, 15)).toBe(ALLOW);
    expect(of('tgkill', 1, 1, 18)).toBe(EPERM);
    expect(of('fallocate')).toBe(EOPNOTSUPP);
    // MADV_DONTNEED, MADV_HUGEPAGE and MADV_COLLAPSE.
    expect(of('madvise', 0, 4096, 4)).toBe(ALLOW);
    for (const advice of [14, 25]) expect(of('madvise', 0, 4096, advice)).toBe(EINVAL);
    expect(of('sendfile')).toBe(EINVAL);
    expect(of('setsockopt', 3, 1, 7)).toBe(EPERM);
    // O_RDWR | O_CREAT, and O_TMPFILE.
    expect(of('openat', 0, 0, 0o102)).toBe(ALLOW);
    expect(of('openat', 0, 0, 0x410002)).toBe(EOPNOTSUPP);
    expect(of('openat2')).toBe(ENOSYS);
    if (arch === 'x64') expect(of('open', 0, 0x410002)).toBe(EOPNOTSUPP);
    // FIONBIO and TIOCSTI.
    expect(of('ioctl', 0, 0x5421)).toBe(ALLOW);
    expect(of('ioctl', 0, 0x5412)).toBe(EPERM);
    // PR_SET_NAME, PR_SET_PDEATHSIG, PR_SET_DUMPABLE.
    expect(of('prctl', 15)).toBe(ALLOW);
    expect(of('prctl', 1)).toBe(EPERM);
    expect(of('prctl', 4)).toBe(EPERM);
    expect(of('prlimit64', 0)).toBe(ALLOW);
    expect(of('prlimit64', 4711)).toBe(EPERM);
  });
});

describe.each(['x64', 'arm64'] as const)('the filters of the jail for %s', (arch) => {
  const audit = arch === 'x64' ? 0xc000003e : 0xc00000b7;
  const column = arch === 'x64' ? 0 : 1;
  const call = (purpose: FilterPurpose, name: string, ...args: number[]) => {
    const numbers = { ...ALLOWED, ...CONDITIONAL, ...FORK_CALLS, ...LISTEN_CALLS }[name]!;
    return judge(seccompFilter(arch, purpose), audit, numbers[column]!, args);
  };

  const PURPOSES = ['compile', 'install', 'install-by-loopback'] as const;

  test.each(PURPOSES)('of %s allow new processes, without namespaces', (purpose) => {
    expect(call(purpose, 'clone', 17)).toBe(ALLOW);
    expect(call(purpose, 'clone', THREAD)).toBe(ALLOW);
    // CLONE_VM | CLONE_VFORK | SIGCHLD; a thread with its own descriptor table.
    expect(call(purpose, 'clone', 0x4111)).toBe(ALLOW);
    expect(call(purpose, 'clone', THREAD & ~0x400)).toBe(EPERM);
    for (const namespace of [0x02000000, 0x10000000, 0x20000000, 0x40000000])
      expect(call(purpose, 'clone', 17 | namespace)).toBe(EPERM);
    // setsid and setpgid, since the process group is killed as a whole.
    for (const number of arch === 'x64' ? [112, 109] : [157, 154])
      expect(judge(seccompFilter(arch, purpose), audit, number)).toBe(EPERM);
  });

  test.each(PURPOSES)('of %s let their processes lock files against each other', (purpose) => {
    for (const command of [6, 7, 36, 37, 38]) expect(call(purpose, 'fcntl', 0, command)).toBe(ALLOW);
    expect(call(purpose, 'fcntl', 0, 10)).toBe(EPERM);
  });

  test('of the compiler allow no network sockets', () => {
    expect(call('compile', 'socket', 1, 1)).toBe(ALLOW);
    for (const family of [2, 10, 16, 17, 43]) expect(call('compile', 'socket', family, 1)).toBe(EAFNOSUPPORT);
    expect(call('compile', 'socket', 1, 2)).toBe(EAFNOSUPPORT);
  });

  test.each(['install', 'install-by-loopback'] as const)(
    'of %s allow TCP connections, but do not let them bypass Landlock',
    (purpose) => {
      const CLOEXEC_NONBLOCK = 0x80800;
      expect(call(purpose, 'socket', 1, 1)).toBe(ALLOW);
      expect(call(purpose, 'socket', 1, 2)).toBe(EAFNOSUPPORT);
      for (const protocol of [0, 6])
        expect(call(purpose, 'socket', 2, 1 | CLOEXEC_NONBLOCK, protocol)).toBe(ALLOW);
      // UDP, raw sockets, MPTCP, SCTP; other families.
      for (const [type, protocol] of [
        [2, 0],
        [3, 0],
        [3, 6],
        [1, 262],
        [1, 132],
      ] as const)
        expect(call(purpose, 'socket', 2, type, protocol)).toBe(EAFNOSUPPORT);
      for (const family of [10, 16, 17, 38, 40, 43])
        expect(call(purpose, 'socket', family, 1)).toBe(EAFNOSUPPORT);
      // TCP Fast Open connects without the check of connect().
      expect(call(purpose, 'sendto', 3, 0, 0, 0x4000)).toBe(ALLOW);
      expect(call(purpose, 'sendto', 3, 0, 0, 0x20000000)).toBe(EPERM);
      // TCP_NODELAY, and TCP_ULP, which changes the kind of socket.
      expect(call(purpose, 'setsockopt', 3, 6, 1)).toBe(ALLOW);
      expect(call(purpose, 'setsockopt', 3, 6, 31)).toBe(EPERM);
      expect(call(purpose, 'setsockopt', 3, 1, 31)).toBe(ALLOW);
      // sendmsg could also open a connection, and files in transit are not counted.
      expect(judge(seccompFilter(arch, purpose), audit, arch === 'x64' ? 46 : 211)).toBe(EPERM);
    },
  );

  test('let only the program that forwards to the gateway listen', () => {
    // accept, which is not used.
    for (const purpose of PURPOSES)
      expect(judge(seccompFilter(arch, purpose), audit, arch === 'x64' ? 43 : 202)).toBe(EPERM);
    for (const name of Object.keys(LISTEN_CALLS)) {
      expect([name, call('compile', name), call('install', name)]).toEqual([name, EPERM, EPERM]);
      expect([name, call('install-by-loopback', name)]).toEqual([name, ALLOW]);
    }
  });
});

test('the calls of x32 do not bypass the filter of x64', () => {
  expect(judge(seccompFilter('x64'), 0xc000003e, 0x40000000 + 57)).toBe(ENOSYS);
});

test('an unknown processor is an error', () => {
  expect(() => seccompFilter('riscv64')).toThrow('riscv64');
});
