import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import type { Log } from '@wellspring/core/log';

/** taskset of util-linux or BusyBox; undefined: processes cannot be limited to some processors. */
const TASKSET = ['/usr/bin/taskset', '/bin/taskset'].find(existsSync);

/** @param list in the form of cpuset(7), such as `0-2,5` */
export function parseProcessors(list: string): number[] {
  return list.split(',').flatMap((range) => {
    const [first = Number.NaN, last = first] = range.split('-').map(Number);
    return Array.from({ length: last - first + 1 }, (_, index) => first + index);
  });
}

/** Numbers of the processors that a process may use; empty: unknown. */
export function processorsOf(pid: number | 'self'): number[] {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return parseProcessors(/^Cpus_allowed_list:\s*(\S+)$/m.exec(status)![1]!);
  } catch {
    return [];
  }
}

/**
 * Processors for user code and packages: those of this process without the first `reserved`, which remain free for the
 * platform, but at least one. See ADR 37.
 * @returns their numbers; undefined: user code may use all
 */
export function processorsForCode(
  reserved: number,
  log: Log,
  taskset = TASKSET,
): readonly number[] | undefined {
  const all = processorsOf('self');
  const count = Math.min(reserved, all.length - 1);
  if (count <= 0) return undefined;
  const processors = all.slice(count);
  try {
    if (taskset === undefined) throw new Error('taskset of util-linux is not installed');
    // Old versions of BusyBox know no lists; a filter of system calls may refuse it.
    execFileSync(taskset, ['-c', processors.join(','), '/bin/true'], {
      env: {},
      stdio: 'pipe',
      timeout: 10_000,
    });
    return processors;
  } catch (error) {
    log.warn({ message: (error as Error).message }, 'sandbox.processors_not_reserved');
    return undefined;
  }
}

/** @returns a command that runs the program, and all that it starts, on these processors */
export const onProcessors = (
  processors: readonly number[] | undefined,
  command: readonly [string, ...string[]],
): [string, ...string[]] =>
  processors === undefined ? [...command] : [TASKSET!, '-c', processors.join(','), ...command];

/** Under load, a thread with it gets a third of the time of a thread of this process. */
export const NICE = Math.min(getPriority() + 5, 19);

/** With autogrouping, a session is a scheduling group with its own priority: its name, or undefined without. */
function autogroupOf(pid: number | 'self'): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/autogroup`, 'latin1').split(' ')[0];
  } catch {
    // The process has ended, or the kernel has no autogrouping.
    return undefined;
  }
}

/**
 * Lowers the priority of a process, and of all that it will start, below that of this process; also that of its session
 * once it has its own.
 * @param pid undefined: it did not start
 * @param threads those that it has already; default: the main one
 */
export function lowerPriority(pid: number | undefined, threads?: readonly number[]): void {
  if (pid === undefined) return;
  try {
    for (const thread of threads ?? [pid]) setPriority(thread, NICE);
    const group = autogroupOf(pid);
    // A new process still belongs to the session of the platform, whose priority must not change.
    if (group !== undefined && group !== autogroupOf('self'))
      writeFileSync(`/proc/${pid}/autogroup`, String(NICE));
  } catch {
    // The process has ended.
  }
}
