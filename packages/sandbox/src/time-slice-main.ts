import { dlopen, getRawPointer } from 'node:ffi';
import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';

// Program that sets the time slice of all threads of a process; see `shortenTimeSlices`. Argument: its id.

/** The shortest that the kernel accepts. */
const SLICE_NS = 100_000n;

// System calls and structures: sched_setattr(2). The C libraries of supported systems have no function for it.
const SCHED_SETATTR: Partial<Record<string, bigint>> = { x64: 314n, arm64: 274n };
const SCHED_OTHER = 0;
const SCHED_FLAG_RESET_ON_FORK = 1n;

/** `struct sched_attr` for a thread that keeps its priority. */
function attributes(nice: number): Uint8Array {
  const bytes = new Uint8Array(48);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, bytes.byteLength, true);
  view.setUint32(4, SCHED_OTHER, true);
  view.setBigUint64(8, SCHED_FLAG_RESET_ON_FORK, true);
  view.setInt32(16, nice, true);
  view.setBigUint64(24, SLICE_NS, true);
  return bytes;
}

/** Field 41 of proc_pid_stat(5); undefined: the thread has ended. */
function policyOf(pid: string, thread: string): number | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'latin1');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[38]);
  } catch {
    return undefined;
  }
}

const [, , pid = 'self'] = process.argv;
const number = SCHED_SETATTR[process.arch];
if (number === undefined) throw new Error(`The number of sched_setattr is not known for ${process.arch}`);
const { functions } = dlopen(null, {
  syscall: { arguments: ['i64', 'i64', 'pointer', 'i64'], return: 'i64' },
});
for (const thread of readdirSync(`/proc/${pid}/task`)) {
  // Another policy is the choice of the operator.
  if (policyOf(pid, thread) !== SCHED_OTHER) continue;
  const bytes = attributes(getPriority(Number(thread)));
  const result = functions.syscall(number, BigInt(thread), getRawPointer(bytes), 0n);
  // The thread may have ended meanwhile.
  if (result !== 0n && policyOf(pid, thread) !== undefined) throw new Error('sched_setattr was refused');
}
