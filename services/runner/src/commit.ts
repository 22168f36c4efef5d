import type { Emit, ThrownError } from '@wellspring/component/program/program-types';
import type { DedupeStrategy } from '@wellspring/contract/definition';
import { type DelayedEvent, type EmittedEvent, MAX_HOPS } from '@wellspring/contract/messages';
import { dedupe, type Key, keyOf } from '@wellspring/core/dedupe';
import { eventIdOfSortKey } from '@wellspring/core/event-id';
import { inPieces } from '@wellspring/core/in-pieces';
import type { EventRow, EventStream } from '@wellspring/store/collections/events';
import type { EmitterStateRow } from '@wellspring/store/collections/states';
import { allocateIds, type Ids } from './allocate-ids.ts';
import type { Part } from './commit-group.ts';
import { emittedLogs, errorRow, eventRows, logRow, sizeOfLogs } from './commit-rows.ts';
import {
  errorLogRecord,
  errorRecord,
  type Failure,
  type LogRecord,
  logRecord,
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

/** An outcome with those parts of its commit that do not depend on earlier commits. */
export interface Arranged extends Outcome {
  /** Sorted, without those that are refused. */
  emits: readonly Emit[];
  /** By emit: see dedupe. */
  keys: readonly Key[];
}

/** Channels of the events that a commit with this outcome publishes. */
export const channelsOf = ({ emits, errors }: Outcome): Set<string> =>
  new Set([
    ...emits.filter(({ sse }) => !sse).map(({ name }) => name),
    ...(errors.length > 0 ? ['$errors'] : []),
  ]);

/** Figures of the `end` record; without state if nothing was executed. */
export interface RunEnd {
  state?: RunState;
  durationMs: number;
  cpuMs: number;
}

export interface CommitInput {
  state: EmitterStateRow;
  run: RunContext;
  outcome: Arranged;
  strategy: DedupeStrategy | null;
  /** Input of the run; read only when there is an error. */
  triggerEvent: () => unknown;
  /** The run was triggered by `$errors` or `$logs`: its own records are not emitted there. */
  handlesRecords: boolean;
  /** `$logs` has a subscriber. */
  logsWanted: boolean;
  /** Channels whose events are not published, since nobody listens. */
  unheard?: ReadonlySet<string> | undefined;
  end: RunEnd;
  /** Passed on with the first event: a workflow behind the source answers the HTTP call. */
  reply?: EmittedEvent['reply'];
  now: number;
}

export interface Prepared extends Pick<Part, 'events' | 'emitted' | 'bytes'> {
  state: EmitterStateRow;
  logs: Part['logs'];
  /** Events that wait on `$in`; among `events`, too. */
  delayed: Omit<DelayedEvent, 'trace_id'>[];
}

/** Total size of the `$errors` records of a run that include the trigger event. */
const MAX_FAILURE_BYTES = 1024 * 1024;

/** Sorts the emits of a run and computes their keys, in pieces: there may be thousands. @param hop of the run */
export async function arrange(
  outcome: Outcome,
  strategy: DedupeStrategy | null,
  hop: number,
): Promise<Arranged> {
  const isLooping = hop >= MAX_HOPS && outcome.emits.some(({ sse }) => !sse);
  const emits = outcome.emits
    .filter(({ sse }) => sse || !isLooping)
    .sort((a, b) => (a.ts ?? a.at) - (b.ts ?? b.at));
  const keys: Key[] = [];
  if (strategy !== null) await inPieces(emits, (emit) => keys.push(keyOf(strategy, emit)) && 0);
  return { ...outcome, emits, keys, errors: isLooping ? [...outcome.errors, loopError] : outcome.errors };
}

/**
 * The state after a run. Its rows and events are made when they are read, those of logs and `emitted` once and in pieces.
 * Pure except for the random emit ids.
 */
export function prepareCommit(input: CommitInput): Prepared {
  const { state, run, outcome, now } = input;
  const allocate = createAllocator(state, now);
  const { verdicts, caches } = dedupe(input.strategy, state.dedupe, outcome.emits, outcome.keys);
  const isDelayed = (emit: Emit) => (emit.delivery_ts ?? 0) > now;
  const all = outcome.emits.filter((_, index) => verdicts[index] === 'keep');
  const kept = all.filter((emit) => !isDelayed(emit));
  const waiting = all.filter(isDelayed);
  const deduped = verdicts.filter((verdict) => verdict !== 'keep').length;

  // One allocation for all events of a stream: there may be thousands.
  const idsOf = (stream: EventStream, { length }: readonly unknown[]) =>
    length === 0 ? undefined : allocate(stream, length);
  const ids = idsOf('events', kept);
  const delayedIds = idsOf('$in', waiting);
  const delayed = waiting.map(({ delivery_ts }, index) => ({
    sort_key: delayedIds!.sortKey(index),
    due_at: delivery_ts!,
  }));
  const records = [...outcome.logs];
  for (const verdict of verdicts) if (verdict === 'no-id') records.push(missingId(run, now));
  let triggerEvent: unknown;
  let failureBytes = 0;
  const failures = outcome.errors.map((error, index) => {
    records.push(errorLogRecord(run, error, now));
    if (index === 0) triggerEvent = input.triggerEvent();
    // A hundred errors must not store a hundred copies of a large event.
    const event = failureBytes <= MAX_FAILURE_BYTES ? triggerEvent : null;
    const payload = errorRecord(run, event, error, now);
    failureBytes += payload.length;
    return errorRow(run, allocate('$errors', 1).sortKey(), now, payload);
  });
  records.push({
    ts: now,
    k: 'end',
    level: 'info',
    execution_id: run.run_id,
    ...(input.end.state && { state: input.end.state, compute_ms: rounded(input.end.cpuMs) }),
    duration_ms: rounded(input.end.durationMs),
    emitted: all.length,
    deduped,
  });
  const logIds = allocate('$logs', records.length);
  const logs = { ...logRow(run, records, logIds.sortKey(), now), ended: true as const };
  const isLogged = input.logsWanted && !input.handlesRecords;

  function* events() {
    const rowOf = {
      events: eventRows(run, 'events'),
      $sse: eventRows(run, '$sse'),
      $in: eventRows(run, '$in'),
    };
    let index = 0;
    for (const emit of kept) yield rowOf[emit.sse ? '$sse' : 'events'](ids!.sortKey(index++), now, emit);
    index = 0;
    for (const emit of waiting) {
      const { sort_key, due_at } = delayed[index++]!;
      yield rowOf.$in(sort_key, due_at, emit);
    }
    yield* failures;
  }
  // The first event carries the reply, also if nobody listens.
  const isPublished = (name: string) => input.reply !== undefined || !input.unheard?.has(name);

  function* emitted() {
    let index = 0;
    for (const { sse, name, payload } of kept) {
      if (!sse && isPublished(name)) yield { event_id: ids!.eventId(index), name, payload };
      index += 1;
    }
    if (!input.handlesRecords && isPublished('$errors')) yield* failures.map(asEmitted);
    if (isLogged) yield* emittedLogs(logIds, records);
  }
  return {
    state: {
      ...state,
      dedupe: caches,
      last_ids: allocate.lastIds(),
    },
    events: {
      length: kept.length + waiting.length + failures.length,
      [Symbol.iterator]: events,
    },
    logs,
    emitted: input.reply ? withReply(emitted(), input.reply) : emitted(),
    bytes: sizeOf(kept) + failureBytes + (isLogged ? sizeOfLogs(records) : 0),
    delayed,
  };
}

const sizeOf = (emits: readonly Emit[]) => emits.reduce((sum, { payload }) => sum + payload.length, 0);

type Emitted = Omit<EmittedEvent, 'trace_id'>;

function* withReply(events: Iterable<Emitted>, reply: EmittedEvent['reply']): Generator<Emitted> {
  let isFirst = true;
  for (const event of events) {
    yield isFirst ? { ...event, reply } : event;
    isFirst = false;
  }
}

const rounded = (ms: number) => Math.round(ms * 1000) / 1000;

const loopError: ThrownError = {
  name: 'LoopError',
  message: `The emit was refused: ${MAX_HOPS} sources or workflows in a row were run by each other's events.`,
  stack: '',
};

const missingId = (run: RunContext, ts: number): LogRecord =>
  logRecord(run, {
    ts,
    level: 'error',
    msg: 'An event without id was dropped: a source with a dedupe strategy must give each event an id.',
  });

/** Allocates ids that increase within each stream. */
function createAllocator(state: EmitterStateRow, now: number) {
  let lastIds: Record<string, string> = state.last_ids;
  const allocate = (stream: string, count: number): Ids => {
    const next = allocateIds(lastIds, stream, now, count);
    lastIds = next.lastIds;
    return next.ids;
  };
  return Object.assign(allocate, { lastIds: () => lastIds });
}

const asEmitted = ({ sort_key, name, payload }: EventRow): Emitted => ({
  event_id: eventIdOfSortKey(sort_key),
  name,
  payload,
});
