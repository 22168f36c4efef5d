import { closeSync, openSync, readdirSync, readFileSync, readSync, writeFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { childrenOf } from './spawner/process-tree.ts';

/** What the kernel says of a process. Nothing here comes from the process itself. */
export interface Account {
  /**
   * Processor time since its start, of all its threads, in ms. Never decreases. The main thread's part is exact, the
   * others' part is that of the last sample; what a sample adds later is not lost, as long as the sums are compared.
   */
  cpuMs(): number;
  /** Looks anew; undefined when the process has ended. */
  sample(): Sample | undefined;
  /** Bytes of memory that are not shared with other processes. */
  privateBytes(): number | undefined;
  /** Stops it until `resume`. @returns false when it has ended, or the platform may not signal it */
  stop(): boolean;
  resume(): void;
  /** Host id of the process that runs Node. */
  readonly pid: number;
  close(): void;
}

export interface Sample {
  /** With what is swapped out, and the page tables: reading untouched memory costs nothing else. */
  residentBytes: number;
  threads: number;
}

const PAGE_BYTES = 4096;
/** USER_HZ, the unit of /proc/<pid>/stat, is 100 on every platform that Node runs on. */
const TICK_MS = 10;
/**
 * Priority of user code (nice value), below that of the platform. When processors are scarce, one of its threads gets a
 * third of a platform's.
 */
const NICE = Math.min(getPriority() + 5, 19);

/** Lowers the priority of a process that was just started, and of all that it will start. */
export function lowerPriority(pid: number): void {
  try {
    setPriority(pid, NICE);
    // A session is a scheduling group of its own where the kernel groups automatically; the group has a priority, too.
    writeFileSync(`/proc/${pid}/autogroup`, String(NICE));
  } catch {
    // It has ended, or the kernel does not group.
  }
}

/**
 * Opens the account of the process that runs Node: `pid` itself, or the last of a chain of only children (bubblewrap
 * starts it). Its main thread has to be there: call this when the child has said that it is ready.
 * @param relayed stops are asked of `outerPid`; see Tier
 * @returns undefined where there is no /proc, or when the process has ended
 */
export function openAccount(outerPid: number | undefined, relayed = false): Account | undefined {
  const pid = innermost(outerPid);
  if (pid === undefined) return undefined;
  let schedstat: number;
  try {
    // Held open, the file stays that of this process, even if its id is used again.
    schedstat = openSync(`/proc/${pid}/schedstat`, 'r');
  } catch {
    return undefined;
  }
  ensurePriority(pid);
  const buffer = Buffer.alloc(64);
  let mainMs = 0;
  let othersMs = 0;
  let closed = false;

  function readMain(): void {
    if (closed) return;
    try {
      const length = readSync(schedstat, buffer, 0, buffer.length, 0);
      mainMs = Math.max(mainMs, leadingNumber(buffer, length) / 1e6);
    } catch {
      // It has ended: what was read last stands.
    }
  }

  function signal(name: NodeJS.Signals): boolean {
    if (closed) return false;
    try {
      return process.kill(relayed ? outerPid! : pid!, name);
    } catch {
      return false;
    }
  }

  return {
    pid,
    cpuMs() {
      readMain();
      return mainMs + othersMs;
    },
    sample() {
      if (closed) return undefined;
      const stat = readStat(pid);
      if (!stat) return undefined;
      readMain();
      othersMs = Math.max(othersMs, stat.cpuMs - mainMs);
      return stat;
    },
    privateBytes() {
      const [, resident, shared] = read(`/proc/${pid}/statm`)?.split(' ') ?? [];
      return resident === undefined ? undefined : (Number(resident) - Number(shared)) * PAGE_BYTES;
    },
    stop: () => signal(relayed ? 'SIGTSTP' : 'SIGSTOP'),
    resume: () => void signal('SIGCONT'),
    close() {
      if (!closed) closeSync(schedstat);
      closed = true;
    },
  };
}

/** Each call reads one: without making a text of it. */
function leadingNumber(digits: Uint8Array, length: number): number {
  let number = 0;
  for (let i = 0; i < length; i += 1) {
    const digit = digits[i]! - 0x30;
    if (digit < 0 || digit > 9) break;
    number = number * 10 + digit;
  }
  return number;
}

/** Processor time of all threads, resident memory, and the number of threads; see proc(5). */
function readStat(pid: number): (Sample & { cpuMs: number }) | undefined {
  const text = read(`/proc/${pid}/stat`);
  if (text === undefined) return undefined;
  // The name of the program may contain anything.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return {
    cpuMs: (Number(fields[11]) + Number(fields[12])) * TICK_MS,
    threads: Number(fields[17]),
    residentBytes: Number(fields[21]) * PAGE_BYTES + unseenBytes(pid),
  };
}

/** Memory of a process that its resident size leaves out; see proc(5). */
function unseenBytes(pid: number): number {
  const status = read(`/proc/${pid}/status`) ?? '';
  return [...status.matchAll(/^Vm(?:PTE|Swap):\s+(\d+) kB$/gm)].reduce(
    (sum, [, kb]) => sum + Number(kb) * 1024,
    0,
  );
}

/** Threads that were started before `lowerPriority` took effect have kept their priority. */
function ensurePriority(pid: number): void {
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) setPriority(Number(thread), NICE);
    writeFileSync(`/proc/${pid}/autogroup`, String(NICE));
  } catch {
    // As above.
  }
}

function innermost(pid: number | undefined): number | undefined {
  if (pid === undefined) return undefined;
  for (let current = pid; ; ) {
    const children = childrenOf(current);
    if (children === undefined) return undefined;
    const [child] = children;
    if (child === undefined) return current;
    current = child;
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
