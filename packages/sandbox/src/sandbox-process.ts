import type { Child } from './child.ts';
import type { Host, Task } from './port.ts';
import type { ProcessDirectory } from './process-directories.ts';
import { ESTIMATED_BYTES } from './process-memory.ts';
import type { CallFrame } from './protocol.ts';

/** A child with the code of one deployment. */
export interface SandboxProcess {
  readonly child: Child;
  readonly directory: ProcessDirectory;
  /** Of its task; absent: it ends after its call. */
  readonly key: string | undefined;
  readonly bundleId: string;
  readonly ownerId: string;
  calls: number;
  /** Number of unfinished calls. */
  busy: number;
  /** `performance.now()` of its last use. */
  usedAt: number;
  /** See CallGaps. */
  gapMs: number;
  /** Called when no call is left. */
  whenIdle: (() => void)[];
  /** It ends after its unfinished calls. */
  retired: boolean;
  /** Its code, until the first call contains it. */
  load: CallFrame['load'] | undefined;
  /** It has got the props and `$service.db` of its source. */
  hasInstance: boolean;
  /** Revision of its copy of `$service.db`; -1: unknown, so that the next call contains the map. */
  dbRevision: number;
  /** Accounts that its code knows; see Instance. */
  accountsRevision: string;
  /** Memory when it was measured last; an estimate before. */
  readonly bytes: number;
}

/** @param load its code */
export const createProcess = (
  given: Pick<SandboxProcess, 'child' | 'directory' | 'key' | 'bundleId' | 'ownerId'>,
  load: CallFrame['load'],
): SandboxProcess => ({
  ...given,
  get bytes() {
    return given.child.memoryBytes ?? ESTIMATED_BYTES;
  },
  calls: 0,
  busy: 0,
  usedAt: performance.now(),
  gapMs: 0,
  whenIdle: [],
  retired: false,
  load,
  hasInstance: false,
  dbRevision: -1,
  accountsRevision: '',
});

/** A process is replaced after this number of calls, which bounds memory leaks. */
const MAX_CALLS = 100_000;

/** Whether the process can execute the task. */
export const canExecute = (proc: SandboxProcess, { bundleId, instance }: Task): boolean =>
  proc.child.usable &&
  !proc.retired &&
  proc.bundleId === bundleId &&
  proc.calls < MAX_CALLS &&
  (!proc.hasInstance || proc.accountsRevision === accountsOf(instance));

const accountsOf = (instance: Task['instance']) => instance?.accountsRevision ?? '';

/** Whether `$service.db` was changed by another process. */
export const isOutdated = (proc: SandboxProcess, { instance }: Task): boolean =>
  proc.hasInstance && instance !== undefined && instance.dbRevision !== proc.dbRevision;

/** The frame for the next call of the process, with the code and state that the process lacks. */
export function createFrame(proc: SandboxProcess, task: Task): CallFrame {
  const { instance, call } = task;
  const frame: CallFrame = { call };
  if (proc.load) frame.load = proc.load;
  if (instance && !proc.hasInstance) frame.instance = instance;
  else if (instance && isOutdated(proc, task)) frame.db = instance.db;
  proc.load = undefined;
  if (!proc.hasInstance) proc.accountsRevision = accountsOf(instance);
  proc.hasInstance ||= instance !== undefined;
  proc.dbRevision = instance?.dbRevision ?? -1;
  return frame;
}

/** The host of a call, which notes the changes of `$service.db` that the process makes. */
export const followChanges = (proc: SandboxProcess, host: Host): Host => ({
  ...host,
  dbSet(key, json) {
    const revision = host.dbSet(key, json);
    // If only this process changed `$service.db`, its copy is up to date.
    proc.dbRevision = revision === proc.dbRevision + 1 ? revision : -1;
    return revision;
  },
});
