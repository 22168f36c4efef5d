import type { ThrownError } from '@wellspring/component/program/program-types';
import { LIMITS } from '@wellspring/contract/limits';
import type { HttpReply, RunJob, Send } from '@wellspring/contract/messages';
import type { Clock } from '@wellspring/core/clock';
import type { CallOptions, Executor, Result, Task } from '@wellspring/sandbox/port';
import type { Store } from '@wellspring/store/port';
import type { ActiveRuns } from './active-runs.ts';
import type { Deployed } from './catalog.ts';
import type { Outcome, RunEnd } from './commit.ts';
import type { CommitGate } from './commit-gate.ts';
import { limitDelayed } from './delayed.ts';
import { createEffects, type EffectsOptions } from './effects.ts';
import type { DbSet } from './live-state.ts';
import { maskError } from './mask-secrets.ts';
import { type RunState, waitedLong } from './records.ts';
import type { RunRoom } from './run-room.ts';

export interface Execution {
  outcome: Outcome;
  result: Result;
  /** In order. */
  sets: DbSet[];
  end: RunEnd;
  /** Requests of a workflow, to be made after the commit. */
  sends?: Send[];
}

export interface ExecuteDeps {
  executor: Executor;
  clock: Clock;
  store: Store;
  active: ActiveRuns;
  gate: Pick<CommitGate, 'retry'>;
}

/** A job of a source or workflow that is about to be executed. */
export interface JobToExecute<D extends Deployed>
  extends Pick<EffectsOptions, 'live' | 'run' | 'commitLogs'> {
  job: RunJob;
  deployed: D;
  owner: NonNullable<Task['owner']>;
  room: RunRoom;
}

/** Executes the code of a source and collects its effects. */
export async function executeRun(
  { executor, clock, store, active, gate }: ExecuteDeps,
  { task, room, ...options }: EffectsOptions & { task: Task; room: RunRoom },
  respond: (reply: HttpReply) => void,
): Promise<Execution> {
  const { run, mask } = options;
  const { host, emits, errors, logs, sets, startedAt, flushLogs } = createEffects(clock, options, respond);
  const { signal, start, end } = active.begin(run, startedAt, flushLogs);
  const limits: CallOptions = { timeoutMs: LIMITS.runMs, signal, onBegin: start, room };
  const given = await executor.execute(task, host, limits).finally(end);
  logs.push(...waitedLong(run, room.waitedMs, clock.now()));
  const cancelled = !given.ok && given.reason === 'aborted' && signal.aborted;
  const result = given.ok ? given : { ...given, error: cancelled ? CANCELLED : maskError(given.error, mask) };
  const limited = await gate.retry(() => limitDelayed(store, run.source_id, emits, clock.now()));
  errors.push(...limited.errors);
  if (!result.ok) errors.push(result.error);
  const { durationMs, cpuMs } = result;
  return {
    outcome: { emits: limited.emits, errors, logs },
    result,
    sets,
    end: { state: stateOf(cancelled, errors), durationMs, cpuMs },
  };
}

/** How a run has ended. */
export const stateOf = (cancelled: boolean, errors: readonly unknown[]): RunState =>
  cancelled ? 'cancelled' : errors.length > 0 ? 'failed' : 'ok';

export const CANCELLED: ThrownError = {
  name: 'CancelledError',
  message: 'The run was cancelled.',
  stack: '',
};
