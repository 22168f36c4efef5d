import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { jsonLines } from '../packages/jailed/lines.ts';
import { findCompiler } from '../tiers/compile-launcher.ts';

/** Attempts of a native addon by system calls, which bypass the checks of Node.js. */

/** Numbers of system calls: [x64, arm64]. */
const NUMBERS: Record<string, [x64: number, arm64: number | undefined]> = {
  unshare: [272, 97],
  setns: [308, 268],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_by_handle_at: [304, 265],
  fsopen: [430, 430],
  move_mount: [429, 429],
  open_tree: [428, 428],
  mount_setattr: [442, 442],
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  process_vm_writev: [311, 271],
  pidfd_open: [434, 434],
  kill: [62, 129],
  tgkill: [234, 131],
  getpid: [39, 172],
  rt_sigqueueinfo: [129, 138],
  kcmp: [312, 272],
  bpf: [321, 280],
  perf_event_open: [298, 241],
  userfaultfd: [323, 282],
  io_uring_setup: [425, 425],
  add_key: [248, 217],
  keyctl: [250, 219],
  init_module: [175, 105],
  finit_module: [313, 273],
  kexec_load: [246, 104],
  personality: [135, 92],
  syslog: [103, 116],
  sethostname: [170, 161],
  fanotify_init: [300, 262],
  quotactl: [179, 60],
  socket: [41, 198],
  socketpair: [53, 199],
  connect: [42, 203],
  fork: [57, undefined],
  vfork: [58, undefined],
  clone: [56, 220],
  clone3: [435, 435],
  execveat: [322, 281],
  memfd_create: [319, 279],
  shmget: [29, 194],
  msgget: [68, 186],
  semget: [64, 190],
  mq_open: [240, 180],
  ioctl: [16, 29],
  prctl: [157, 167],
  prlimit64: [302, 261],
  setpriority: [141, 140],
  setuid: [105, 146],
  capset: [126, 91],
  mknodat: [259, 33],
  fchmodat: [268, 53],
  unlinkat: [263, 35],
  openat: [257, 56],
  fcntl: [72, 25],
  mmap: [9, 222],
  close_range: [436, 436],
  sendmsg: [46, 211],
  bind: [49, 200],
  listen: [50, 201],
  fallocate: [285, 47],
  inotify_init1: [294, 26],
  tkill: [200, 130],
  setsockopt: [54, 208],
  sendfile: [40, 71],
  madvise: [28, 233],
};

/**
 * A string is passed as a pointer to it, with a NUL; `hex` as a pointer to these bytes; `step` is an earlier result.
 */
type Argument = number | string | { hex: string } | { step: number };

export interface Attempt {
  name: string;
  /**
   * System calls by name; the result of the last one counts. `startProcess` makes the call and ends the new process.
   */
  steps: [call: string, ...args: Argument[]][];
  startProcess?: true;
  /** Some kernels do not support it, so there is no positive control. */
  optional?: true;
}

/** Runs the attempts with the addon at `path`. Outcomes are error codes or `done`. */
const EXECUTE = `
  const addon = { exports: {} };
  process.dlopen(addon, path);
  const { call, startProcess } = addon.exports;
  const errors = Object.fromEntries(Object.entries(process.getBuiltinModule('node:os').constants.errno).map(([name, code]) => [code, name]));
  const outcomes = {};
  for (const { name, steps, startProcess: starts } of attempts) {
    const results = [];
    for (const [number, ...args] of steps) {
      const given = args.map((arg) => typeof arg === 'number' ? arg : typeof arg === 'string' ? Buffer.from(arg + '\\0')
        : arg.hex !== undefined ? Buffer.from(arg.hex, 'hex') : results[arg.step]);
      results.push((starts ? startProcess : call)(number, ...given));
      if (results.at(-1) < 0) break;
    }
    const last = results.at(-1);
    outcomes[name] = last < 0 ? errors[-last] ?? String(last) : 'done';
  }
`;

const arch = process.arch === 'arm64' ? 1 : 0;

/** Replaces names with numbers; omits attempts with calls that this processor lacks. */
function resolve(attempts: readonly Attempt[]) {
  return attempts
    .map((attempt) => ({
      ...attempt,
      steps: attempt.steps.map(([name, ...args]) => [NUMBERS[name]![arch], ...args]),
    }))
    .filter(({ steps }) => steps.every(([number]) => number !== undefined));
}

export type Outcomes = Record<string, string>;

/** Numbers of system calls in the event of `calling`. */
const CALLS = Object.fromEntries(
  Object.entries({
    mmap: NUMBERS.mmap!,
    fcntl: NUMBERS.fcntl!,
    writev: [20, 66],
    exit: [60, 93],
    rt_sigprocmask: [14, 135],
    getpid: NUMBERS.getpid!,
    tkill: NUMBERS.tkill!,
  }).map(([name, numbers]) => [name, numbers[arch]!]),
);
export const [MAP_SHARED, MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE, MAP_HUGETLB] = [
  1, 2, 0x20, 0x4000, 0x40000,
];
const MB = 1024 * 1024;

/**
 * Code, for `calling`, that uses this many page tables of 4 KB, in thousands. Reading one byte per 2 MB of a mapping
 * needs a page table each, and no resident memory.
 */
export const usePageTables = (thousands: number): string => `{
  let at = BigInt(call(event.mmap, 0, 2 ** 40, 1, ${MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE}, -1, 0));
  const sink = fs.openSync(os.tmpdir() + '/sink', 'w');
  for (let calls = 0; calls < ${thousands}; calls += 1) {
    const vectors = new BigUint64Array(2 * 1024).map((_, index) => index % 2 ? 1n : at + BigInt(index) * ${MB}n);
    const written = call(event.writev, sink, Buffer.from(vectors.buffer), 1024);
    if (written !== 1024) throw new Error('writev: ' + written);
    at += ${2 * 1024 * MB}n;
  }
}`;

export interface NativeAddon {
  /** The body of a component's `run(event)` that runs this code, which makes system calls by `call`; and its event. */
  calling(code: string): { body: string; event: object };
  /**
   * Positive control: runs the code of `calling` outside of a sandbox, in a process that lasts until it is disposed of.
   * @param temporary its temporary directory
   * @returns what the code returns
   */
  callOutside(code: string, temporary: string): Promise<{ value: unknown } & Disposable>;
  /** The body of a component's `run(event)`, which returns Outcomes, and its event for these attempts. */
  body: string;
  event(attempts: readonly Attempt[]): unknown;
  /** Positive control: runs the attempts outside of a sandbox. */
  outside(attempts: readonly Attempt[]): Outcomes;
  remove(): void;
}

export function compileAddon(): NativeAddon {
  const directory = mkdtempSync(join(tmpdir(), 'attack-'));
  const path = join(directory, 'attack.node');
  const source = fileURLToPath(new URL('../../native/attack.c', import.meta.url));
  execFileSync(findCompiler()!, ['-shared', '-fPIC', '-O1', '-o', path, source]);
  const bytes = readFileSync(path).toString('base64');
  const place = `const path = os.tmpdir() + '/attack.node';
    // An addon that is loaded must not be overwritten.
    fs.rmSync(path, { force: true });
    fs.writeFileSync(path, Buffer.from(event.addon, 'base64'));`;
  const calling: NativeAddon['calling'] = (code) => ({
    body: `${place} const addon = { exports: {} }; process.dlopen(addon, path); const { call } = addon.exports; ${code}`,
    event: { addon: bytes, ...CALLS },
  });
  return {
    calling,
    async callOutside(code, temporary) {
      const { body, event } = calling(code);
      const program = `const event = ${JSON.stringify(event)}; const run = () => { ${body} };
        console.log(JSON.stringify(run())); setInterval(() => {}, 60_000);`;
      const child = spawn(process.execPath, ['-e', program], {
        env: { TMPDIR: temporary },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const { value } = await jsonLines(child.stdout).next();
      return { value, [Symbol.dispose]: () => void child.kill('SIGKILL') };
    },
    body: `const { attempts } = event;
      ${place}
      ${EXECUTE} return outcomes`,
    event: (attempts) => ({ addon: bytes, attempts: resolve(attempts) }),
    outside(attempts) {
      const program = `const path = ${JSON.stringify(path)}; const attempts = ${JSON.stringify(resolve(attempts))};
        ${EXECUTE} console.log(JSON.stringify(outcomes))`;
      const { stdout, stderr } = spawnSync(process.execPath, ['-e', program], {
        encoding: 'utf8',
        timeout: 10_000,
      });
      try {
        return JSON.parse(stdout);
      } catch {
        throw new Error(`The control did not run: ${stderr}`);
      }
    },
    remove: () => rmSync(directory, { recursive: true }),
  };
}
