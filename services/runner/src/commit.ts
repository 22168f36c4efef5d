import { randomUUID } from 'node:crypto';
import type { Emit, ThrownError } from '@wellspring/component/program/program-types';
import type { DedupeStrategy } from '@wellspring/contract/definition';
import { type DelayedEvent, type EmittedEvent, MAX_HOPS } from '@wellspring/contract/messages';
import { dedupe } from '@wellspring/core/dedupe';
import { eventIdOfSortKey, eventSortKey, parseEventId } from '@wellspring/core/event-id';
import type { EventRow, EventStream, LogRow } from '@wellspring/store/collections/events';
import type { EmitterStateRow } from '@wellspring/store/collections/states';
import { nextSortKey } from './next-sort-key.ts';
import {
  errorLogRecord,
  errorRecord,
  type Failure,
  type LogRecord,
  type RunContext,
  type RunState,
} from './records.ts';

/** The effects of a run, in order. */
export interface Outcome {
  emits: readonly Emit[];
  /** Errors reported during the run, then the one that ended it. */
  errors: readonly Failure[];
  logs: readonly LogRecord[];
}

/** Figures of the `end` record; without state if nothing was executed. */
export interface RunEnd {
  state?: RunState;
  durationMs: number;
  cpuMs: number;
}

export interface CommitInput {
  state: EmitterStateRow;
  run: RunContext;
  outcome: Outcome;
  strategy: DedupeStrategy | null;
  hop: number;
  /** Input of the run; read only when there is an error. */
  triggerEvent: () => unknown;
  /** The run was triggered by `$errors` or `$logs`: its own records are not emitted there. */
  handlesRecords: boolean;
  /** `$logs` has a subscriber. */
  logsWanted: boolean;
  end: RunEnd;
  now: number;
}

export interface Prepared {
  state: EmitterStateRow;
  events: EventRow[];
  logs: LogRow;
  /** Events for the fan-out. */
  emitted: Omit<EmittedEvent, 'trace_id'>[];
  /** Events that wait on `$in`; among `events`, too. */
  delayed: Omit<DelayedEvent, 'trace_id'>[];
  counts: { emitted: number; deduped: number };
}

/** Total size of the `$errors` records of a run that include the trigger event. */
const MAX_FAILURE_BYTES = 1024 * 1024;

/** The state after a run and the rows to write. Pure except for the random emit ids. */
export function prepareCommit(input: CommitInput): Prepared {
  const { state, run, outcome, now } = input;
  const allocate = createAllocator(state, now);
  const errors = [...outcome.errors];
  const looping = input.hop >= MAX_HOPS && outcome.emits.some(({ sse }) => !sse);
  if (looping) errors.push(loopError);
  const sorted = outcome.emits
    .filter(({ sse }) => sse || !looping)
    .sort((a, b) => (a.ts ?? a.at) - (b.ts ?? b.at));
  const { verdicts, caches } = dedupe(input.strategy, state.dedupe, sorted);
  const isDelayed = (emit: Emit) => (emit.delivery_ts ?? 0) > now;
  const all = sorted.filter((_, index) => verdicts[index] === 'keep');
  const kept = all.filter((emit) => !isDelayed(emit));
  const deduped = verdicts.filter((verdict) => verdict === 'known').length;

  // One allocation for all events: there may be thousands.
  const first =
    kept.length > 0 ? parseEventId(eventIdOfSortKey(allocate('events', kept.length)))! : undefined;
  const events = kept.map((emit, index) =>
    eventRow(
      run,
      emit.sse ? '$sse' : 'events',
      emit.name,
      eventSortKey({ ms: first!.ms, n: first!.n + index }),
      now,
      emit,
    ),
  );
  const waiting = all
    .filter(isDelayed)
    .map((emit) => eventRow(run, '$in', emit.name, allocate('$in', 1), emit.delivery_ts!, emit));
  const records = [...outcome.logs];
  for (const verdict of verdicts) if (verdict === 'no-id') records.push(missingId(run, now));
  let triggerEvent: unknown;
  let failureBytes = 0;
  const failures = errors.map((error, index) => {
    records.push(errorLogRecord(run, error, now));
    if (index === 0) triggerEvent = input.triggerEvent();
    // A hundred errors must not store a hundred copies of a large event.
    const event = failureBytes <= MAX_FAILURE_BYTES ? triggerEvent : null;
    const payload = errorRecord(run, event, error, now);
    failureBytes += payload.length;
    return eventRow(run, '$errors', '$errors', allocate('$errors', 1), now, { payload });
  });
  const counts = { emitted: all.length, deduped };
  records.push({
    ts: now,
    k: 'end',
    level: 'info',
    execution_id: run.run_id,
    ...(input.end.state && { state: input.end.state, compute_ms: rounded(input.end.cpuMs) }),
    duration_ms: rounded(input.end.durationMs),
    ...counts,
  });
  const logs: LogRow = { ...logRow(run, records, allocate('$logs', records.length), now), ended: true };

  const emitted = events.filter(({ stream }) => stream === 'events').map(asEmitted);
  if (!input.handlesRecords) {
    emitted.push(...failures.map(asEmitted));
    if (input.logsWanted) emitted.push(...emittedLogs(logs.sort_key, records));
  }
  return {
    state: {
      ...state,
      dedupe: caches,
      last_ids: allocate.lastIds(),
    },
    events: [...events, ...waiting, ...failures],
    logs,
    emitted,
    delayed: waiting.map(({ sort_key, indexed_at_ms }) => ({ sort_key, due_at: indexed_at_ms })),
    counts,
  };
}

const rounded = (ms: number) => Math.round(ms * 1000) / 1000;

const loopError: ThrownError = {
  name: 'LoopError',
  message: `The emit was refused: ${MAX_HOPS} sources or workflows in a row were run by each other's events.`,
  stack: '',
};

const missingId = (run: RunContext, ts: number): LogRecord => ({
  ts,
  k: 'log',
  level: 'error',
  execution_id: run.run_id,
  msg: 'An event without id was dropped: a source with a dedupe strategy must give each event an id.',
});

/** Allocates sort keys that increase within each stream; those of one allocation share a millisecond. */
function createAllocator(state: EmitterStateRow, now: number) {
  let lastIds: Record<string, string> = state.last_ids;
  const allocate = (stream: string, count: number): string => {
    const next = nextSortKey(lastIds, stream, now, count);
    lastIds = next.lastIds;
    return next.sortKey.text;
  };
  return Object.assign(allocate, { lastIds: () => lastIds });
}

export function eventRow(
  run: RunContext,
  stream: EventStream,
  name: string,
  sortKey: string,
  now: number,
  emit: Partial<Emit> & { payload: string },
): EventRow {
  const partition = `${run.source_id}/${stream}`;
  return {
    id: `${partition}/${sortKey}`,
    emitter_id: run.source_id,
    stream,
    partition,
    channel: `${partition}/${name}`,
    sort_key: sortKey,
    run_id: run.run_id,
    indexed_at_ms: now,
    name,
    emit_id: randomUUID(),
    meta_id: emit.id ?? null,
    summary: emit.summary ?? null,
    ts: emit.ts ?? null,
    payload: emit.payload,
  };
}

export const logRow = (run: RunContext, records: LogRecord[], sortKey: string, now: number): LogRow => ({
  id: `${run.source_id}/${sortKey}`,
  emitter_id: run.source_id,
  sort_key: sortKey,
  run_id: run.run_id,
  indexed_at_ms: now,
  count: records.length,
  records: JSON.stringify(records),
});

const asEmitted = ({ sort_key, name, payload }: EventRow): Omit<EmittedEvent, 'trace_id'> => ({
  event_id: eventIdOfSortKey(sort_key),
  name,
  payload,
});

export function emittedLogs(
  sortKey: string,
  records: readonly LogRecord[],
): Omit<EmittedEvent, 'trace_id'>[] {
  const first = parseEventId(eventIdOfSortKey(sortKey))!;
  return records.map((record, index) => ({
    event_id: `${first.ms}-${first.n + index}`,
    name: '$logs',
    payload: JSON.stringify(record),
  }));
}
