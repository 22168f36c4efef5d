import { callEvent } from '@wellspring/component/http-event';
import type { LogLine, ThrownError } from '@wellspring/component/program/program-types';
import { LIMITS, PLATFORM_VERSION } from '@wellspring/contract/limits';
import type { Trigger } from '@wellspring/contract/messages';
import { truncateUtf8 } from '@wellspring/core/truncate';
import type { RunTriggerName } from '@wellspring/store/collections/running-runs';

/** An error of a run; `cell_id` is that of a workflow's step. */
export type Failure = ThrownError & { cell_id?: string };

/** A record of `$logs`. */
export interface LogRecord {
  /** Epoch ms. */
  ts: number;
  k: 'start' | 'end' | 'log' | 'error' | 'emit' | 'respond';
  level: LogLine['level'];
  execution_id: string;
  msg?: string;
  err?: { name: string; message: string; stack: string; cause?: string };
  /** Of `emit`: the channel. */
  en?: string;
  /** Of `start`. */
  trigger?: RunTriggerName;
  /** Of `end`. `state` is absent if nothing was executed. */
  state?: RunState;
  duration_ms?: number;
  /** Processor time. */
  compute_ms?: number;
  emitted?: number;
  deduped?: number;
}

export type RunState = 'ok' | 'failed' | 'cancelled';

export type SourceType = 'HTTP' | 'TIMER' | 'EMIT' | 'MANUAL' | 'HOOK';

export interface RunContext {
  run_id: string;
  source_id: string;
  owner_id: string;
  deployment_id: string;
  source_type: SourceType;
  /** Epoch ms of the trigger. */
  accepted_at: number;
  hook?: string;
  /** Of a workflow: the source or workflow whose event started the run. */
  workflow?: { emitter_id: string | null };
}

const cut = (text: string) => truncateUtf8(text, LIMITS.logLine);

const causeOf = ({ cause }: ThrownError) => (cause === undefined ? {} : { cause: cut(cause) });

export const logRecord = (run: RunContext, line: LogLine): LogRecord => ({
  ts: line.ts,
  k: 'log',
  level: line.level,
  execution_id: run.run_id,
  msg: cut(line.msg),
});

export const errorLogRecord = (run: RunContext, error: ThrownError, ts: number): LogRecord => ({
  ts,
  k: 'error',
  level: 'error',
  execution_id: run.run_id,
  msg: cut(error.message),
  err: { name: error.name, message: cut(error.message), stack: cut(error.stack), ...causeOf(error) },
});

/** Warns about response headers that were removed; see contract/response-headers. */
export const droppedHeaders = (
  run: RunContext,
  names: readonly string[],
  ownHost: string | undefined,
  ts: number,
): LogRecord =>
  logRecord(run, {
    ts,
    level: 'warn',
    msg: `The response was sent without ${names.join(', ')}: ${
      ownHost === undefined
        ? 'at this address a component must not set headers that affect the whole origin or the connection.'
        : 'a component must not set headers that affect other hosts or the connection.'
    }`,
  });

/** Waits up to this are not logged. */
const MAX_SILENT_MS = 1_000;

/** Warns about a run whose output had to wait for long. */
export const waitedLong = (run: RunContext, waitedMs: number, ts: number): LogRecord[] =>
  waitedMs <= MAX_SILENT_MS
    ? []
    : [
        logRecord(run, {
          ts,
          level: 'warn',
          msg: `The output of the run waited ${Math.round(waitedMs / 1000)} s: the runs of its owner emit and log more than the platform stores meanwhile.`,
        }),
      ];

/** Warns about a run that was skipped. @param reason a sentence */
export function skippedRun(run: RunContext, trigger: Trigger, reason: string, ts: number): LogRecord {
  return logRecord(run, { ts, level: 'warn', msg: `The ${nameOfRun(run, trigger)} was skipped. ${reason}` });
}

function nameOfRun(run: RunContext, trigger: Trigger): string {
  if (trigger.kind === 'event') return `run for the event ${trigger.event_id} of ${trigger.emitter_id}`;
  if (trigger.kind === 'timer') return `tick of ${trigger.prop} at ${new Date(trigger.due_at).toISOString()}`;
  return `run accepted at ${new Date(run.accepted_at).toISOString()}`;
}

/** A record of `$errors`: the trigger, where it ran and what was thrown. JSON text. */
export function errorRecord(run: RunContext, event: unknown, error: Failure, now: number): string {
  return JSON.stringify({
    original_event: event ?? null,
    original_context: {
      id: run.run_id,
      ts: new Date(run.accepted_at).toISOString(),
      workflow_id: run.workflow ? run.source_id : null,
      source_id: run.workflow ? null : run.source_id,
      ...(run.workflow && { emitter_id: run.workflow.emitter_id }),
      deployment_id: run.deployment_id,
      source_type: run.source_type,
      verified: false,
      owner_id: run.owner_id,
      platform_version: PLATFORM_VERSION,
      ...(run.hook === undefined ? {} : { hook: run.hook }),
    },
    error: {
      code: error.name,
      msg: cut(error.message),
      stack: cut(error.stack),
      ...causeOf(error),
      ts: new Date(now).toISOString(),
      cellId: error.cell_id ?? null,
    },
  });
}

export const SOURCE_TYPES = {
  http: 'HTTP',
  timer: 'TIMER',
  event: 'EMIT',
  manual: 'MANUAL',
} as const satisfies Record<Trigger['kind'], SourceType>;

const TRIGGER_NAMES: Record<SourceType, RunTriggerName> = {
  HTTP: 'http',
  TIMER: 'timer',
  EMIT: 'event',
  MANUAL: 'manual',
  HOOK: 'hook',
};

export const triggerOf = ({ source_type }: RunContext): RunTriggerName => TRIGGER_NAMES[source_type];

/** The input of the run, for `original_event`. */
export function triggerEvent(trigger: Trigger): unknown {
  if (trigger.kind === 'http') return callEvent(trigger.request);
  if (trigger.kind === 'timer') return timerEvent(trigger);
  return trigger.payload === undefined ? {} : JSON.parse(trigger.payload);
}

/** The event of a timer run: seconds, and the schedule. */
export function timerEvent(trigger: Extract<Trigger, { kind: 'timer' }>): Record<string, unknown> {
  const { due_at, interval_seconds, cron, timezone } = trigger;
  return {
    timestamp: Math.floor(due_at / 1000),
    ...(interval_seconds === undefined ? {} : { interval_seconds }),
    ...(cron === undefined ? {} : { cron, timezone: timezone ?? 'UTC' }),
  };
}
