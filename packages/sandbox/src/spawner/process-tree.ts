import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** States of processes in /proc that start no more processes: stopped (T, t), dead (X), zombie (Z). */
const HALTED = 'TtXZ';
const MAX_CHECKS = 10_000;

function stateOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat[stat.lastIndexOf(')') + 2] ?? 'X';
  } catch {
    return 'X';
  }
}

/** @returns undefined without /proc, or if the process has ended */
export function childrenOf(pid: number): number[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
  } catch {
    return undefined;
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has ended.
  }
}

/**
 * Kills a process and its descendants. Each is stopped before its children are listed, so that it starts no others. A
 * bubblewrap that is killed alone during its start may leave a child that waits forever and keeps its pipes open.
 */
export function killTree({
  pid,
  exitCode,
  signalCode,
}: Pick<ChildProcess, 'pid' | 'exitCode' | 'signalCode'>): void {
  // The id of a process that has ended may be reused.
  if (pid !== undefined && exitCode === null && signalCode === null) killWithChildren(pid);
}

function killWithChildren(pid: number): void {
  signal(pid, 'SIGSTOP');
  for (let check = 0; check < MAX_CHECKS && !HALTED.includes(stateOf(pid)); check += 1);
  for (const child of childrenOf(pid) ?? []) killWithChildren(child);
  signal(pid, 'SIGKILL');
}
