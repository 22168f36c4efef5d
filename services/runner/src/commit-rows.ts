import { randomUUID } from 'node:crypto';
import type { Emit } from '@wellspring/component/program/program-types';
import type { EmittedEvent } from '@wellspring/contract/messages';
import type { EventRow, EventStream } from '@wellspring/store/collections/events';
import type { Ids } from './allocate-ids.ts';
import type { Part } from './commit-group.ts';
import type { LogRecord, RunContext } from './records.ts';

/**
 * Makes the rows of one stream.
 * @returns a function of the sort key, the time (of a delayed event: when it is due) and the emit
 */
export function eventRows(run: RunContext, stream: EventStream) {
  const { source_id, run_id } = run;
  const partition = `${source_id}/${stream}`;
  let channel: { name: string; id: string | null } = { name: '', id: null };
  return (
    sort_key: string,
    indexed_at_ms: number,
    emit: Pick<Emit, 'name' | 'payload'> & Partial<Emit>,
  ): EventRow => {
    const { name } = emit;
    if (channel.name !== name) channel = { name, id: name === '' ? null : `${partition}/${name}` };
    return {
      id: `${partition}/${sort_key}`,
      emitter_id: source_id,
      stream,
      partition,
      channel: channel.id,
      sort_key,
      run_id,
      indexed_at_ms,
      name,
      emit_id: randomUUID(),
      meta_id: emit.id ?? null,
      summary: emit.summary ?? null,
      ts: emit.ts ?? null,
      payload: emit.payload,
    };
  };
}

/** The row of a record of `$errors`. @param payload JSON text */
export const errorRow = (run: RunContext, sortKey: string, now: number, payload: string): EventRow =>
  eventRows(run, '$errors')(sortKey, now, { name: '$errors', payload });

export const logRow = (
  run: RunContext,
  records: LogRecord[],
  sortKey: string,
  now: number,
): Part['logs'] => ({
  id: `${run.source_id}/${sortKey}`,
  emitter_id: run.source_id,
  sort_key: sortKey,
  run_id: run.run_id,
  indexed_at_ms: now,
  count: records.length,
  records: records
    .values()
    .map((record) =>
      JSON.stringify(record.execution_id === run.run_id ? { ...record, execution_id: undefined } : record),
    ),
});

export function* emittedLogs(
  { eventId }: Ids,
  records: readonly LogRecord[],
): Generator<Omit<EmittedEvent, 'trace_id'>> {
  for (const [index, record] of records.entries()) {
    yield { event_id: eventId(index), name: '$logs', payload: JSON.stringify(record) };
  }
}

/** About the characters of the records of `$logs`. */
export const sizeOfLogs = (records: readonly LogRecord[]): number =>
  records.reduce((sum, { msg }) => sum + 100 + (msg?.length ?? 0), 0);
