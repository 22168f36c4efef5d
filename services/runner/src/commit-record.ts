import { MAX_HOPS, type RecordJob } from '@wellspring/contract/messages';
import { marksOf } from '@wellspring/store/collections/events';
import type { EmitterStateRow } from '@wellspring/store/collections/states';
import type { Part } from './commit-group.ts';
import { emittedLogs, errorRow, logRow, sizeOfLogs } from './commit-rows.ts';
import { nextSortKey } from './next-sort-key.ts';
import type { LogRecord, RunContext } from './records.ts';

/** Prepares the commit of another service's error. */
export function prepareRecord(
  before: EmitterStateRow,
  run: RunContext,
  { run_id, channel, payload, hop }: RecordJob,
  now: number,
): { state: EmitterStateRow; part: Part } {
  const { sortKey, lastIds } = nextSortKey(before.last_ids, channel, now);
  // Bounds the loop of a request whose failure record triggers it again.
  const emitted = hop > MAX_HOPS ? [] : [{ event_id: sortKey.eventId, name: channel, payload }];
  const part = { run_id, trace_id: run_id, hop, emitted, bytes: payload.length };
  const event = errorRow(run, sortKey.text, now, payload);
  const { state, mark } = prepareMark({ ...before, last_ids: lastIds }, run_id, now);
  return { state, part: { ...part, events: [event], logs: mark } };
}

/** The mark of a job without log records. */
export function prepareMark(
  before: EmitterStateRow,
  run_id: string,
  now: number,
): { state: EmitterStateRow; mark: Part['logs'] } {
  const { sortKey, lastIds } = nextSortKey(before.last_ids, '$logs', now);
  const emitter_id = marksOf(before.id);
  const key = { id: `${emitter_id}/${sortKey.text}`, emitter_id, sort_key: sortKey.text };
  const mark = { ...key, run_id, ended: true as const, indexed_at_ms: now, count: 1, records: [] };
  return { state: { ...before, last_ids: lastIds }, mark };
}

/** Prepares the commit of the log lines of a run that has not ended. A repetition of the run logs them again. */
export function prepareLogs(
  before: EmitterStateRow,
  run: RunContext,
  records: LogRecord[],
  { hop, traceId, wanted }: { hop: number; traceId: string; wanted: boolean },
  now: number,
): { state: EmitterStateRow; part: Part } {
  const { sortKey, lastIds } = nextSortKey(before.last_ids, '$logs', now, records.length);
  const logs = logRow(run, records, sortKey.text, now);
  const emitted = wanted ? emittedLogs(sortKey.text, records) : [];
  // The outbox row has the id of the first part: the commit of the run has its own.
  const run_id = `${run.run_id}/logs/${sortKey.eventId}`;
  return {
    state: { ...before, last_ids: lastIds },
    part: {
      run_id,
      trace_id: traceId,
      hop,
      events: [],
      logs,
      emitted,
      bytes: wanted ? sizeOfLogs(records) : 0,
    },
  };
}
