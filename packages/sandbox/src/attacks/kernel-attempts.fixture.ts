import type { Attempt } from './native-addon.fixture.ts';

/** Attempts of a native addon that the filters of sandboxes and of jails refuse. */

export const AT_FDCWD = -100;
const [AF_NETLINK, AF_PACKET, AF_ALG, AF_VSOCK] = [16, 17, 38, 40];

/** An attempt of one system call, named by it and its integers. */
export const one = (
  name: string,
  ...args: Attempt['steps'][number] extends [string, ...infer A] ? A : never
): Attempt => ({
  name:
    args.length > 0 ? `${name} ${args.map((arg) => (typeof arg === 'number' ? arg : '…')).join(' ')}` : name,
  steps: [[name, ...args]],
});

/**
 * By row of the table of attacks, with the expected outcomes.
 * @param victim process id of another process of the host
 */
export const KERNEL_ROWS: [id: string, expected: string[], attempts: (victim: number) => Attempt[]][] = [
  [
    '7',
    ['EPERM'],
    () => [
      ...[0x00020000, 0x10000000, 0x20000000, 0x40000000].map((flag) => one('unshare', flag)),
      one('setns', -1, 0),
      one('mount', 0, '/', 0, 0, 0),
      one('umount2', '/nowhere', 0),
      one('pivot_root', '/nowhere', '/nowhere'),
      one('chroot', '/'),
      one('open_by_handle_at', AT_FDCWD, { hex: '00'.repeat(16) }, 0),
      one('fsopen', 'tmpfs', 0),
      one('move_mount', -1, '', -1, '', 0),
      one('open_tree', AT_FDCWD, '/', 1),
      one('mount_setattr', -1, '', 0, 0, 0),
    ],
  ],
  [
    '8',
    ['EPERM', 'ESRCH'],
    (victim) => [
      one('ptrace', 0x4206, victim, 0, 0),
      one('process_vm_readv', victim, 0, 0, 0, 0, 0),
      one('process_vm_writev', victim, 0, 0, 0, 0, 0),
      one('pidfd_open', victim, 0),
      one('kill', victim, 0),
      one('kill', process.pid, 0),
      one('rt_sigqueueinfo', victim, 0, { hex: `${'00'.repeat(8)}ffffffff${'00'.repeat(116)}` }),
      one('kcmp', victim, victim, 0, 0, 0),
    ],
  ],
  [
    '9',
    ['EPERM'],
    () => [
      one('bpf', 0, 0, 0),
      one('perf_event_open', 0, 0, 0, 0, 0),
      one('userfaultfd', 0),
      one('io_uring_setup', 1, { hex: '00'.repeat(120) }),
      one('add_key', 'user', 'x', 'x', 1, -3),
      one('keyctl', 0, -3, 1),
      one('init_module', 0, 0, ''),
      one('finit_module', -1, '', 0),
      one('personality', 0xffffffff),
      one('memfd_create', 'x', 0),
      one('syslog', 10, 0, 0),
      one('sethostname', 'x', -1),
      one('fanotify_init', 0, 0),
      one('quotactl', 0, 0, 0, 0),
    ],
  ],
  [
    '9a',
    ['EAFNOSUPPORT'],
    () => [
      one('socket', AF_NETLINK, 3, 0),
      one('socket', AF_PACKET, 3, 0),
      { ...one('socket', AF_ALG, 5, 0), optional: true },
      { ...one('socket', AF_VSOCK, 1, 0), optional: true },
      one('socketpair', AF_NETLINK, 3, 0, { hex: '00'.repeat(8) }),
    ],
  ],
];
