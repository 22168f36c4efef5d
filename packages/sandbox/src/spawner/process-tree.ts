import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** State of a process in /proc: stopped (T, t), dead (X) or a zombie (Z). It starts no more processes. */
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

/** @returns undefined where there is no /proc, or when the process has ended */
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
 * Kills a process and its descendants at once. Each is stopped before its children are listed, so that it starts no
 * others meanwhile. A bubblewrap that is killed alone while it starts may leave a child that waits for it for ever and
 * holds its pipes.
 */
export function killTree({
  pid,
  exitCode,
  signalCode,
}: Pick<ChildProcess, 'pid' | 'exitCode' | 'signalCode'>): void {
  // The id of one that has ended may belong to another process.
  if (pid !== undefined && exitCode === null && signalCode === null) killWithChildren(pid);
}

function killWithChildren(pid: number): void {
  signal(pid, 'SIGSTOP');
  for (let check = 0; check < MAX_CHECKS && !HALTED.includes(stateOf(pid)); check += 1);
  for (const child of childrenOf(pid) ?? []) killWithChildren(child);
  signal(pid, 'SIGKILL');
}
