import { fork } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** Program of a sandbox process. */
const CODE_PROGRAM = 'child.mjs';

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));

/** Starts a module of this folder; resolves with the port that it listens on. */
export async function startModule(
  name: string,
  args: string[],
  onMessage: (message: never) => void = () => {},
) {
  const child = fork(path(name), args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const port = await new Promise<number>((resolve, reject) => {
    child.once('exit', () => reject(new Error(`${name} ended`)));
    child.on('message', (message: { port?: number }) => {
      if (message.port !== undefined) resolve(message.port);
      else onMessage(message as never);
    });
  });
  return { child, port };
}

/** A process and its descendants. */
export function treeOf(root: number): number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    const stat = /^\d+$/.test(name) ? statOf(Number(name)) : undefined;
    if (stat) parents.set(Number(name), Number(stat[1]));
  }
  return [...parents.keys()].filter((pid) => {
    let above: number | undefined = pid;
    while (above !== undefined && above !== root) above = parents.get(above);
    return above === root;
  });
}

/** Fields of /proc/PID/stat from the state on. */
function statOf(pid: number): string[] | undefined {
  const stat = readIfThere(`/proc/${pid}/stat`);
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** CPU seconds of one process; 0 if it has ended. */
function ownCpuOf(pid: number): number {
  const stat = statOf(pid);
  return stat ? (Number(stat[11]) + Number(stat[12])) / 100 : 0;
}

/** CPU seconds of a process and its live descendants. */
export function cpuOf(root: number): { itself: number; below: number } {
  const sum = { itself: 0, below: 0 };
  for (const pid of treeOf(root)) {
    sum[pid === root ? 'itself' : 'below'] += ownCpuOf(pid);
  }
  return sum;
}

/** Waits until the descendants of this process use hardly any processor time. */
export async function descendantsIdle(): Promise<void> {
  const deadline = performance.now() + 60_000;
  while ((await cpuUsedBelow(500)) > 0.02) {
    if (performance.now() > deadline) throw new Error('Descendants of this process do not become idle.');
  }
}

/** CPU seconds that the descendants of this process use within a time, without those that end meanwhile. */
export async function cpuUsedBelow(durationMs: number): Promise<number> {
  const measure = () => {
    const pids = treeOf(process.pid).filter((pid) => pid !== process.pid);
    return new Map(pids.map((pid) => [pid, ownCpuOf(pid)]));
  };
  const before = measure();
  await pause(durationMs);
  let used = 0;
  for (const [pid, seconds] of measure()) used += seconds - (before.get(pid) ?? 0);
  return used;
}

/** CPU seconds of all descendants that run this program, e.g. `mongod`. */
export function cpuOfProgram(root: number, program: string): number {
  return treeOf(root)
    .filter((pid) => readIfThere(`/proc/${pid}/comm`)?.trim() === program)
    .reduce((sum, pid) => sum + ownCpuOf(pid), 0);
}

/** Bytes written by a process; 0 if unreadable. */
export function writtenBy(pid: number): number {
  return Number(/^write_bytes: (\d+)$/m.exec(readIfThere(`/proc/${pid}/io`) ?? '')?.[1] ?? 0);
}

/**
 * Proportional set size of a process and its descendants in bytes, since all sandboxes map the same program. Falls back
 * to the resident size.
 */
export const memoryOf = (root: number): number => sumOf(treeOf(root));

/** As `memoryOf`, of the processes of user code only, which `WELLSPRING_MEMORY_MB` limits. */
export const memoryOfCode = (root: number): number =>
  sumOf(treeOf(root).filter((pid) => readIfThere(`/proc/${pid}/cmdline`)?.includes(CODE_PROGRAM)));

const sumOf = (pids: readonly number[]): number =>
  pids.reduce((sum, pid) => sum + (proportional(pid) ?? resident(pid)), 0);

function proportional(pid: number): number | undefined {
  const kilobytes = /^Pss:\s+(\d+) kB/m.exec(readIfThere(`/proc/${pid}/smaps_rollup`) ?? '')?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
}

/** Private bytes of a process. Falls back to the resident size. */
export function usedMemory(pid: number): number {
  const rollup = readIfThere(`/proc/${pid}/smaps_rollup`);
  const kilobytes =
    rollup && [...rollup.matchAll(/^Private_\w+:\s+(\d+) kB/gm)].map(([, size]) => Number(size));
  return kilobytes ? kilobytes.reduce((sum, size) => sum + size, 0) * 1024 : resident(pid);
}

function resident(pid: number): number {
  return Number((readIfThere(`/proc/${pid}/statm`) ?? '0 0').split(' ')[1]) * 4096;
}

/** Undefined if it has exited or is unreadable. */
function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
