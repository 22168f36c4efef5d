import type { Emit } from '@wellspring/component/program/program-types';
import { LIMITS } from '@wellspring/contract/limits';
import type { HttpReply } from '@wellspring/contract/messages';
import { allowedHeaders } from '@wellspring/contract/response-headers';
import type { Clock } from '@wellspring/core/clock';
import type { Host } from '@wellspring/sandbox/port';
import { type DbSet, type LiveState, setDb } from './live-state.ts';
import { type Mask, maskError, mayBeCut } from './mask-secrets.ts';
import {
  droppedHeaders,
  type Failure,
  type LogRecord,
  logRecord,
  type RunContext,
  triggerOf,
} from './records.ts';

/** Refused changes of `$service.db` that a run reports. */
const MAX_REFUSED = 100;

/** The effects of a run's code, in order. */
export interface Effects {
  host: Host;
  emits: Emit[];
  errors: Failure[];
  logs: LogRecord[];
  sets: DbSet[];
  /** Epoch ms. */
  startedAt: number;
  /** Commits the log lines so far. */
  flushLogs(): void;
}

export interface EffectsOptions {
  live: LiveState;
  run: RunContext;
  /** Applied to logs and errors, not to emitted data. */
  mask: Mask;
  /** Commits log lines before the end of a run that lasts. */
  commitLogs(records: LogRecord[]): void;
  /** Host of the HTTP call, if it belongs to a single endpoint. */
  ownHost?: string | undefined;
}

/**
 * Collects the effects of a run. Two of them apply before its end: the reply, and changes of `$service.db`, which
 * concurrent hooks and runs see at once.
 */
export function createEffects(
  { now }: Pick<Clock, 'now'>,
  { live, run, mask, commitLogs, ownHost }: EffectsOptions,
  respond: (reply: Extract<HttpReply, { kind: 'response' }>, immediate: boolean) => void,
): Effects {
  const record = <T extends object>(k: LogRecord['k'], ts: number, fields: T) => ({
    ts,
    k,
    level: 'info' as const,
    execution_id: run.run_id,
    ...fields,
  });
  const emits: Emit[] = [];
  const errors: Failure[] = [];
  const sets: DbSet[] = [];
  let refused = 0;
  const startedAt = now();
  const logs: LogRecord[] = [record('start', startedAt, { trigger: triggerOf(run) })];
  const flushLogs = () => {
    if (logs.length > 0) commitLogs(logs.splice(0));
  };
  const host: Host = {
    emit(emit) {
      emits.push(emit);
      const { at, summary } = emit;
      const en = mask(emit.name);
      const msg = summary === null ? undefined : mask(summary, mayBeCut(summary, LIMITS.summaryBytes));
      logs.push(record('emit', at, msg === undefined ? { en } : { en, msg }));
    },
    fault: (error) => errors.push(maskError(error, mask)),
    log: (line) => logs.push(logRecord(run, { ...line, msg: mask(line.msg, line.isCut) })),
    respond({ immediate = false, ...reply }) {
      respond({ kind: 'response', ...reply }, immediate);
      logs.push(record('respond', now(), { msg: String(reply.status) }));
      const { dropped } = allowedHeaders(reply.headers, ownHost);
      if (dropped.length > 0) logs.push(droppedHeaders(run, dropped, ownHost, now()));
    },
    dbSet(key, json) {
      const set = setDb(live, key, json);
      if (typeof set === 'object') {
        sets.push(set);
        return set.revision;
      }
      if (set === undefined) return -1;
      refused += 1;
      // The message contains the key, which may contain a secret.
      if (refused <= MAX_REFUSED)
        errors.push(maskError({ name: 'RangeError', message: set, stack: '' }, mask));
      return -1;
    },
  };
  return { host, emits, errors, logs, sets, startedAt, flushLogs };
}
