import { LIMITS } from '@wellspring/contract/limits';
import { eventIdOfSortKey, eventSortKey, parseSortKey } from '@wellspring/core/event-id';
import { JsonText } from '@wellspring/core/json-text';
import { truncateUtf8 } from '@wellspring/core/truncate';
import { isWorkflowId } from '@wellspring/store/collections/emitters';
import { type EventRow, type LogRow, recordsOf } from '@wellspring/store/collections/events';

/** One event of any stream, between the store and the API. */
export interface EventRecord {
  sortKey: string;
  id: string;
  indexedAtMs: number;
  metadata: {
    emit_id: string;
    emitter_id: string;
    name: string;
    id: string | number | null;
    summary: string | null;
    ts: number | null;
  };
  /** JSON text. */
  payload: string;
  /** Sent to the stream of a workflow by `$.send.sse`; `metadata.name` is its channel. */
  sse?: true;
}

export const recordOfEvent = (row: EventRow): EventRecord => ({
  sortKey: row.sort_key,
  id: eventIdOfSortKey(row.sort_key),
  indexedAtMs: row.indexed_at_ms,
  metadata: {
    emit_id: row.emit_id,
    emitter_id: row.emitter_id,
    name: row.name,
    id: row.meta_id,
    summary: row.summary,
    ts: row.ts,
  },
  payload: payloadOf(row),
  ...(row.stream === '$sse' && { sse: true }),
});

/** A workflow's emit has the emitted value as `raw_event`; its listeners get it bare. */
const payloadOf = ({ emitter_id, stream, payload }: EventRow) =>
  isWorkflowId(emitter_id) && stream === 'events' ? `{"raw_event":${payload}}` : payload;

/** The records of a log row, oldest first, with consecutive ids. */
export function recordsOfLog(row: LogRow): EventRecord[] {
  const first = parseSortKey(row.sort_key);
  return recordsOf(row).map((record, index) => {
    const id = { ms: first.ms, n: first.n + index };
    return {
      sortKey: eventSortKey(id),
      id: `${id.ms}-${id.n}`,
      indexedAtMs: row.indexed_at_ms,
      metadata: {
        emit_id: `${row.run_id}-${id.n}`,
        emitter_id: row.emitter_id,
        name: '$logs',
        id: null,
        summary: null,
        ts: null,
      },
      payload: JSON.stringify(record),
    };
  });
}

/** An event in a list; over 1 KB and not expanded, `event` is the start of its JSON text. */
export function summaryOf(record: EventRecord, expand: boolean) {
  const { id, indexedAtMs, metadata, payload } = record;
  const cut = !expand && Buffer.byteLength(payload) > LIMITS.summaryBytes;
  return {
    id,
    indexed_at_ms: indexedAtMs,
    event: cut ? truncateUtf8(payload, LIMITS.summaryBytes) : new JsonText(payload),
    metadata: cut ? { ...metadata, truncated: true } : metadata,
  };
}

/**
 * An event in a stream: one frame with the emitted payload byte for byte. One of `$.send.sse` has its channel as event
 * and only the payload as data.
 */
export function frameOf({ id, indexedAtMs, metadata, payload, sse }: EventRecord): string {
  // The channel is one line; see the runner.
  if (sse) return `id: ${id}\nevent: ${metadata.name}\ndata: ${payload}\n\n`;
  const data = `{"id":"${id}","indexed_at_ms":${indexedAtMs},"event":${payload},"metadata":${JSON.stringify(metadata)}}`;
  return `id: ${id}\ndata: ${data}\n\n`;
}
