/**
 * A seccomp filter as classic BPF, for bubblewrap. User code may do what a Node process does with files, memory,
 * threads and sockets; it may not start processes, trace, mount, load into the kernel, or use sockets of other
 * families than IP and unix.
 */

type Arch = 'x64' | 'arm64';

const AUDIT_ARCH: Record<Arch, number> = { x64: 0xc000003e, arm64: 0xc00000b7 };

/** Refused with EPERM. Numbers: Linux' syscall tables. */
const DENIED: Record<Arch, Record<string, number>> = {
  x64: {
    fork: 57,
    vfork: 58,
    ptrace: 101,
    syslog: 103,
    setuid: 105,
    setgid: 106,
    personality: 135,
    ustat: 136,
    sysfs: 139,
    vhangup: 153,
    modify_ldt: 154,
    pivot_root: 155,
    adjtimex: 159,
    chroot: 161,
    acct: 163,
    settimeofday: 164,
    mount: 165,
    umount2: 166,
    swapon: 167,
    swapoff: 168,
    reboot: 169,
    sethostname: 170,
    setdomainname: 171,
    iopl: 172,
    ioperm: 173,
    create_module: 174,
    init_module: 175,
    delete_module: 176,
    quotactl: 179,
    nfsservctl: 180,
    lookup_dcookie: 212,
    clock_settime: 227,
    mbind: 237,
    set_mempolicy: 238,
    kexec_load: 246,
    add_key: 248,
    request_key: 249,
    keyctl: 250,
    migrate_pages: 256,
    unshare: 272,
    move_pages: 279,
    fanotify_init: 300,
    perf_event_open: 298,
    name_to_handle_at: 303,
    open_by_handle_at: 304,
    clock_adjtime: 305,
    setns: 308,
    process_vm_readv: 310,
    process_vm_writev: 311,
    kcmp: 312,
    finit_module: 313,
    kexec_file_load: 320,
    bpf: 321,
    userfaultfd: 323,
    io_uring_setup: 425,
    io_uring_enter: 426,
    io_uring_register: 427,
    open_tree: 428,
    move_mount: 429,
    fsopen: 430,
    fsconfig: 431,
    fsmount: 432,
    fspick: 433,
    pidfd_open: 434,
    pidfd_getfd: 438,
    process_madvise: 440,
    mount_setattr: 442,
    quotactl_fd: 443,
    memfd_secret: 447,
  },
  arm64: {
    pivot_root: 41,
    umount2: 39,
    mount: 40,
    chroot: 51,
    vhangup: 58,
    quotactl: 60,
    acct: 89,
    personality: 92,
    unshare: 97,
    kexec_load: 104,
    init_module: 105,
    delete_module: 106,
    clock_settime: 112,
    syslog: 116,
    ptrace: 117,
    reboot: 142,
    setgid: 144,
    setuid: 146,
    sethostname: 161,
    setdomainname: 162,
    settimeofday: 170,
    adjtimex: 171,
    add_key: 217,
    request_key: 218,
    keyctl: 219,
    swapon: 224,
    swapoff: 225,
    mbind: 235,
    set_mempolicy: 237,
    migrate_pages: 238,
    move_pages: 239,
    perf_event_open: 241,
    fanotify_init: 262,
    name_to_handle_at: 264,
    open_by_handle_at: 265,
    clock_adjtime: 266,
    setns: 268,
    process_vm_readv: 270,
    process_vm_writev: 271,
    kcmp: 272,
    finit_module: 273,
    bpf: 280,
    userfaultfd: 282,
    kexec_file_load: 294,
    io_uring_setup: 425,
    io_uring_enter: 426,
    io_uring_register: 427,
    open_tree: 428,
    move_mount: 429,
    fsopen: 430,
    fsconfig: 431,
    fsmount: 432,
    fspick: 433,
    pidfd_open: 434,
    pidfd_getfd: 438,
    process_madvise: 440,
    mount_setattr: 442,
    quotactl_fd: 443,
    memfd_secret: 447,
  },
};

const CLONE: Record<Arch, number> = { x64: 56, arm64: 220 };
/** Answered with ENOSYS, after which the C library uses clone. */
const CLONE3 = 435;
const SOCKET: Record<Arch, number> = { x64: 41, arm64: 198 };
const CLONE_THREAD = 0x00010000;
const [AF_UNIX, AF_INET, AF_INET6] = [1, 2, 10];
/** The x32 calls of x64 would go around the numbers above. */
const X32 = 0x40000000;

const [EPERM, ENOSYS, EAFNOSUPPORT] = [1, 38, 97];

const LOAD = 0x20; // BPF_LD | BPF_W | BPF_ABS
const JUMP_EQUAL = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_SET = 0x45; // BPF_JMP | BPF_JSET | BPF_K
const JUMP_AT_LEAST = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const RETURN = 0x06; // BPF_RET | BPF_K
const ALLOW = 0x7fff0000;
const KILL = 0x80000000;
const refuse = (errno: number) => 0x00050000 | errno;

const [NUMBER, ARCH, ARG0] = [0, 4, 16];

/** The filter for this processor, as bubblewrap's --seccomp reads it. @throws Error for another processor */
export function seccompFilter(arch: string): Buffer {
  if (arch !== 'x64' && arch !== 'arm64') throw new Error(`there is no seccomp filter for ${arch}`);
  const program: [code: number, jumpTrue: number, jumpFalse: number, value: number][] = [];
  const add = (code: number, value: number, jumpTrue = 0, jumpFalse = 0) =>
    program.push([code, jumpTrue, jumpFalse, value]);

  add(LOAD, ARCH);
  add(JUMP_EQUAL, AUDIT_ARCH[arch], 1, 0);
  add(RETURN, KILL);
  add(LOAD, NUMBER);
  if (arch === 'x64') {
    add(JUMP_AT_LEAST, X32, 0, 1);
    add(RETURN, refuse(ENOSYS));
  }
  for (const number of Object.values(DENIED[arch])) {
    add(JUMP_EQUAL, number, 0, 1);
    add(RETURN, refuse(EPERM));
  }
  add(JUMP_EQUAL, CLONE3, 0, 1);
  add(RETURN, refuse(ENOSYS));
  // clone: threads only.
  add(JUMP_EQUAL, CLONE[arch], 0, 4);
  add(LOAD, ARG0);
  add(JUMP_SET, CLONE_THREAD, 0, 1);
  add(RETURN, ALLOW);
  add(RETURN, refuse(EPERM));
  // socket: unix and IP only.
  add(JUMP_EQUAL, SOCKET[arch], 0, 6);
  add(LOAD, ARG0);
  add(JUMP_EQUAL, AF_UNIX, 3, 0);
  add(JUMP_EQUAL, AF_INET, 2, 0);
  add(JUMP_EQUAL, AF_INET6, 1, 0);
  add(RETURN, refuse(EAFNOSUPPORT));
  add(RETURN, ALLOW);
  add(RETURN, ALLOW);

  const bytes = Buffer.alloc(program.length * 8);
  program.forEach(([code, jumpTrue, jumpFalse, value], index) => {
    bytes.writeUInt16LE(code, index * 8);
    bytes[index * 8 + 2] = jumpTrue;
    bytes[index * 8 + 3] = jumpFalse;
    bytes.writeUInt32LE(value >>> 0, index * 8 + 4);
  });
  return bytes;
}
