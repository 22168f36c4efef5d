import { fork } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { fileURLToPath } from 'node:url';

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

/** Processes below a process, and itself. */
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

/** What follows the name of the program in its line, from the state on. */
function statOf(pid: number): string[] | undefined {
  const stat = readIfThere(`/proc/${pid}/stat`);
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** Seconds of CPU that a process and those below it have used. Of processes that have ended, nothing. */
export function cpuOf(root: number): { itself: number; below: number } {
  const sum = { itself: 0, below: 0 };
  for (const pid of treeOf(root)) {
    const stat = statOf(pid);
    if (stat) sum[pid === root ? 'itself' : 'below'] += (Number(stat[11]) + Number(stat[12])) / 100;
  }
  return sum;
}

/** Seconds of CPU of all processes below one that run this program, e.g. `mongod`. */
export function cpuOfProgram(root: number, program: string): number {
  return treeOf(root)
    .filter((pid) => readIfThere(`/proc/${pid}/comm`)?.trim() === program)
    .reduce((sum, pid) => sum + cpuOf(pid).itself, 0);
}

/** Seconds that the processors of the machine had nothing to do. */
export const idleSeconds = (): number => cpus().reduce((sum, { times }) => sum + times.idle, 0) / 1000;

/** Bytes that a process has sent to the disk; where that may not be read: 0. */
export function writtenBy(pid: number): number {
  return Number(/^write_bytes: (\d+)$/m.exec(readIfThere(`/proc/${pid}/io`) ?? '')?.[1] ?? 0);
}

/**
 * Memory of a process and of all below it, in bytes, where a page that n of them share counts as 1/n for each: the
 * sandboxes all map the same program. Where that may not be read: the resident size.
 */
export function memoryOf(root: number): number {
  return treeOf(root).reduce((sum, pid) => sum + (proportional(pid) ?? resident(pid)), 0);
}

function proportional(pid: number): number | undefined {
  const kilobytes = /^Pss:\s+(\d+) kB/m.exec(readIfThere(`/proc/${pid}/smaps_rollup`) ?? '')?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
}

/** Bytes that only this process holds; where that may not be read: the resident size. */
export function usedMemory(pid: number): number {
  const rollup = readIfThere(`/proc/${pid}/smaps_rollup`);
  const kilobytes =
    rollup && [...rollup.matchAll(/^Private_\w+:\s+(\d+) kB/gm)].map(([, size]) => Number(size));
  return kilobytes ? kilobytes.reduce((sum, size) => sum + size, 0) * 1024 : resident(pid);
}

function resident(pid: number): number {
  return Number((readIfThere(`/proc/${pid}/statm`) ?? '0 0').split(' ')[1]) * 4096;
}

/** undefined: it ended meanwhile, or is not ours to read. */
function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
