import type { Emit, ThrownError } from '@wellspring/component/program/program-types';
import { LIMITS } from '@wellspring/contract/limits';
import type { HttpReply } from '@wellspring/contract/messages';
import { allowedHeaders } from '@wellspring/contract/response-headers';
import type { Clock } from '@wellspring/core/clock';
import type { Executor, Host, Result, Task } from '@wellspring/sandbox/port';

import type { Store } from '@wellspring/store/port';
import type { ActiveRuns } from './active-runs.ts';
import type { Outcome, RunEnd } from './commit.ts';
import { limitDelayed } from './delayed.ts';

import { type DbSet, type Live, setDb } from './live-state.ts';
import type { Mask } from './mask-secrets.ts';
import { droppedHeaders, type LogRecord, logRecord, type RunContext, triggerOf } from './records.ts';

export interface Execution {
  outcome: Outcome;
  result: Result;
  /** In order. */
  sets: DbSet[];
  end: RunEnd;
}

export interface ExecuteOptions {
  task: Task;
  live: Live;
  run: RunContext;
  /** Applied to logs and errors, not to emitted data. */
  mask: Mask;
  /** Commits log lines before the end of a run that lasts. */
  commitLogs(records: LogRecord[]): void;
  /** Host of the HTTP call, if it belongs to a single endpoint. */
  ownHost?: string | undefined;
}

/**
 * Executes code and collects its effects in order. Two effects apply before the end: the reply, and changes of
 * `$service.db`, which concurrent hooks and runs see at once.
 */
export async function executeRun(
  { executor, clock, store, active }: { executor: Executor; clock: Clock; store: Store; active: ActiveRuns },
  { task, live, run, mask, commitLogs, ownHost }: ExecuteOptions,
  respond: (reply: HttpReply) => void,
): Promise<Execution> {
  const emits: Emit[] = [];
  const errors: ThrownError[] = [];
  const sets: DbSet[] = [];
  const record = (k: LogRecord['k'], ts: number): LogRecord => ({
    ts,
    k,
    level: 'info',
    execution_id: run.run_id,
  });
  const startedAt = clock.now();
  let logs: LogRecord[] = [{ ...record('start', startedAt), trigger: triggerOf(run) }];
  const host: Host = {
    emit(emit) {
      emits.push(emit);
      const summary = emit.summary === null ? {} : { msg: mask(emit.summary) };
      logs.push({ ...record('emit', emit.at), en: emit.name, ...summary });
    },
    fault: (error) => errors.push(maskError(error, mask)),
    log: (line) => logs.push(logRecord(run, { ...line, msg: mask(line.msg) })),
    respond(reply) {
      respond({ kind: 'response', ...reply });
      logs.push({ ...record('respond', clock.now()), msg: String(reply.status) });
      const { dropped } = allowedHeaders(reply.headers, ownHost);
      if (dropped.length > 0) logs.push(droppedHeaders(run, dropped, ownHost, clock.now()));
    },
    dbSet(key, json) {
      const set = setDb(live, key, json);
      if (typeof set === 'string') errors.push({ name: 'RangeError', message: set, stack: '' });
      else sets.push(set);
      return live.dbRevision;
    },
  };
  const { signal, end } = active.begin(run, startedAt, () => {
    if (logs.length > 0) commitLogs(logs);
    logs = [];
  });
  const given = await executor
    .execute(task, host, { timeoutMs: LIMITS.runMs, signal })
    .catch((error: unknown) => {
      // The redelivered run repeats its sets, so the map must be reread without them.
      live.stale = true;
      throw error;
    })
    .finally(end);
  const cancelled = !given.ok && given.reason === 'aborted' && signal.aborted;
  const result = given.ok ? given : { ...given, error: cancelled ? CANCELLED : maskError(given.error, mask) };
  const limited = await limitDelayed(store, run.source_id, emits, clock.now());
  errors.push(...limited.errors);
  if (!result.ok) errors.push(result.error);
  const state = cancelled ? 'cancelled' : errors.length > 0 ? 'failed' : 'ok';
  const { durationMs, cpuMs } = result;
  return { outcome: { emits: limited.emits, errors, logs }, result, sets, end: { state, durationMs, cpuMs } };
}

const CANCELLED: ThrownError = { name: 'CancelledError', message: 'The run was cancelled.', stack: '' };

const maskError = ({ name, message, stack, cause }: ThrownError, mask: Mask): ThrownError => ({
  name: mask(name),
  message: mask(message),
  stack: mask(stack),
  ...(cause === undefined ? {} : { cause: mask(cause) }),
});
