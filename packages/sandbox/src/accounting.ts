import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs';
import { lowerPriority } from './scheduling.ts';
import { childrenOf } from './spawner/process-tree.ts';

/** Figures of the kernel about a process. None comes from the process itself. */
export interface Account {
  /**
   * Processor time of all threads since the start, in ms. Never decreases. The main thread's part is exact; the part of
   * the other threads, and of a launcher, which works for its child, is that of the last sample.
   */
  cpuMs(): number;
  /** Time since the last figure of a process that has ended, in ms; 0: it has not ended. */
  unreadMs(): number;
  /** Samples the processor time only. */
  sampleCpu(): void;
  /** Current figures; undefined if the process has ended. */
  sample(): Sample | undefined;
  /**
   * Whether the process may have changed since the last `sample`: it has used memory or processor time, or has ended.
   * Less than 10 ms of threads other than the main one may be missed.
   */
  hasChanged(): boolean;
  /** Stops it until `resume`. @returns false if it has ended, or the platform must not signal it */
  stop(): boolean;
  resume(): void;
  /** Process id of Node on the host. */
  readonly pid: number;
  close(): void;
}

export interface Sample {
  /** Includes swapped memory and page tables, which are the only cost of reading untouched memory. */
  residentBytes: number;
  /** The part that is not shared with other processes. */
  privateBytes: number;
  threads: number;
  /** The main thread has ended before others. The kernel then shows no memory, no files and no root of the process. */
  isWithoutMainThread: boolean;
}

const PAGE_BYTES = 4096;
/** USER_HZ, the unit of /proc/<pid>/stat, is 100 on every platform that Node runs on. */
const TICK_MS = 10;
/**
 * Opens the account of the process that runs Node: `outerPid` itself, or the last of a chain of only children
 * (started by bubblewrap). Call it after the child has reported that it is ready.
 * @param relayed signals to stop are sent to `outerPid`; see Tier
 * @returns undefined without /proc, or if the process has ended
 */
export function openAccount(outerPid: number | undefined, relayed = false): Account | undefined {
  const pid = innermost(outerPid);
  if (pid === undefined) return undefined;
  const opened: { close(): void }[] = [];
  const keep = <T extends { close(): void }>(one: T): T => {
    opened.push(one);
    return one;
  };
  // The files of a process that has ended stay open, too.
  const close = () => {
    for (const one of opened) one.close();
  };
  let main: ThreadTime;
  let stat: KernelFile;
  let launcher: ThreadTime | undefined;
  try {
    launcher = relayed ? keep(openThreadTime(outerPid!)) : undefined;
    main = keep(openThreadTime(pid));
    stat = keep(openKernelFile(`/proc/${pid}/stat`));
  } catch {
    close();
    return undefined;
  }
  // Threads that started before the priority of the process was lowered kept theirs.
  lowerPriority(pid, list(`/proc/${pid}/task`).map(Number));
  let othersMs = 0;
  /** At the last sample. */
  let activity: string | undefined;

  /** @param allMs of all threads */
  function count(allMs: number): void {
    main.read();
    launcher?.read();
    othersMs = Math.max(othersMs, allMs - main.ms);
  }

  function signal(name: NodeJS.Signals): boolean {
    // The id of a process that has ended may belong to another one.
    if (!main.read()) return false;
    try {
      return process.kill(relayed ? outerPid! : pid!, name);
    } catch {
      return false;
    }
  }

  return {
    pid,
    cpuMs() {
      main.read();
      return main.ms + othersMs + (launcher?.ms ?? 0);
    },
    unreadMs: () => main.unreadMs(),
    sampleCpu() {
      const fields = fieldsOf(stat);
      if (fields) count(cpuMsOf(fields));
    },
    sample() {
      const fields = fieldsOf(stat);
      if (!fields) return undefined;
      count(cpuMsOf(fields));
      activity = activityOf(fields, main.ms);
      return sampleOf(pid, fields);
    },
    hasChanged() {
      const fields = fieldsOf(stat);
      return !main.read() || !fields || activityOf(fields, main.ms) !== activity;
    },
    stop: () => signal(relayed ? 'SIGTSTP' : 'SIGSTOP'),
    resume: () => void signal('SIGCONT'),
    close,
  };
}

/** Processor time of the main thread of a process. */
interface ThreadTime {
  /** In ms, when it was read last. */
  readonly ms: number;
  /** @returns false if the process has ended; the last value stays */
  read(): boolean;
  /** See Account. */
  unreadMs(): number;
  close(): void;
}

/** A file of /proc. An open one refers to its process even after the id is reused. */
interface KernelFile {
  /** Length of the content; `buffer` holds it until the next read of any file. @throws Error if the process has ended */
  read(): number;
  readonly isClosed: boolean;
  close(): void;
}

/** Longer than every file that is read into it. */
const buffer = Buffer.alloc(4096);

/** @throws Error if the process has ended, or the kernel does not have the file */
function openKernelFile(path: string): KernelFile {
  const file = openSync(path, 'r');
  let isClosed = false;
  return {
    read() {
      if (isClosed) throw new Error('The file is closed.');
      return readSync(file, buffer, 0, buffer.length, 0);
    },
    get isClosed() {
      return isClosed;
    },
    close() {
      if (!isClosed) closeSync(file);
      isClosed = true;
    },
  };
}

/** @throws Error if the process has ended, or the kernel does not report it */
function openThreadTime(pid: number): ThreadTime {
  const schedstat = openKernelFile(`/proc/${pid}/schedstat`);
  let ms = 0;
  /** `performance.now()` of the last figure. */
  let readAt = performance.now();
  let isUnread = false;
  return {
    get ms() {
      return ms;
    },
    read() {
      if (schedstat.isClosed) return false;
      try {
        ms = Math.max(ms, leadingNumber(buffer, schedstat.read()) / 1e6);
        readAt = performance.now();
        return true;
      } catch {
        isUnread = true;
        return false;
      }
    },
    unreadMs: () => (isUnread ? performance.now() - readAt : 0),
    close: schedstat.close,
  };
}

/** Parses without creating a string, since each call needs it. */
function leadingNumber(digits: Uint8Array, length: number): number {
  let number = 0;
  for (let i = 0; i < length; i += 1) {
    const digit = digits[i]! - 0x30;
    if (digit < 0 || digit > 9) break;
    number = number * 10 + digit;
  }
  return number;
}

/** The fields of /proc/<pid>/stat behind the name of the program; see proc(5). */
function fieldsOf(stat: KernelFile): string[] | undefined {
  try {
    const text = buffer.toString('latin1', 0, stat.read());
    // The name may contain spaces and parentheses.
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}

/** State, page faults, processor time, number of threads and memory; see proc(5). */
const ACTIVITY = [0, 7, 9, 11, 12, 17, 21];

const activityOf = (fields: readonly string[], mainMs: number): string =>
  [...ACTIVITY.map((at) => fields[at]), mainMs].join(' ');

/** Processor time of all threads. */
const cpuMsOf = (fields: readonly string[]) => (Number(fields[11]) + Number(fields[12])) * TICK_MS;

function sampleOf(pid: number, fields: readonly string[]): Sample {
  const figures = memoryOf(pid);
  // Not part of the resident size; see proc(5).
  const unseen = (figures.get('VmPTE') ?? 0) + (figures.get('VmSwap') ?? 0);
  const resident = Number(fields[21]) * PAGE_BYTES;
  return {
    threads: Number(fields[17]),
    isWithoutMainThread: fields[0] === 'Z' && Number(fields[17]) > 1 && hasLivingThread(pid),
    residentBytes: resident + unseen,
    privateBytes: (figures.get('RssAnon') ?? resident) + unseen,
  };
}

/** PF_EXITING of the kernel's <linux/sched.h>. */
const EXITING = 0x4;

/** Whether a thread goes on. When a process exits or crashes, all its threads are exiting, which may take long. */
const hasLivingThread = (pid: number): boolean =>
  list(`/proc/${pid}/task`).some((thread) => {
    const fields = read(`/proc/${pid}/task/${thread}/stat`)?.split(') ').at(-1)?.split(' ');
    return fields !== undefined && (Number(fields[6]) & EXITING) === 0;
  });

/** Figures of /proc/<pid>/status, in bytes. */
function memoryOf(pid: number): Map<string, number> {
  const status = read(`/proc/${pid}/status`) ?? '';
  const lines = status.matchAll(/^(RssAnon|VmPTE|VmSwap):\s+(\d+) kB$/gm);
  return new Map([...lines].map(([, name, kb]) => [name!, Number(kb) * 1024]));
}

function innermost(pid: number | undefined): number | undefined {
  if (pid === undefined) return undefined;
  let current = pid;
  for (;;) {
    const children = childrenOf(current);
    if (children === undefined) return undefined;
    const [child] = children;
    if (child === undefined) return current;
    current = child;
  }
}

function list(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
