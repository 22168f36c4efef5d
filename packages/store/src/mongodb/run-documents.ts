import { randomUUID } from 'node:crypto';
import { inPieces } from '@wellspring/core/in-pieces';
import { type Document, sizeOf } from '@wellspring/mongodb/client';
import { events, logs } from '../collections/events.ts';
import { outbox } from '../collections/outbox.ts';
import { states } from '../collections/states.ts';
import type { RunCommit } from '../run-commit.ts';
import type { Appended } from './pending-rows.ts';
import { createCodec, encodeString, type StoredRow } from './row.ts';

/** A commit as documents. */
export interface RunDocuments {
  /** `_id` of the state. */
  id: string;
  /** Identifies the commit in the state document. */
  token: string;
  ifVersion: number;
  epoch: number;
  /** Fields of the state document. */
  state: Document;
  /** Holds if the sort keys increase within each stream. */
  increasing: Document[];
  rows: Appended;
  /** Bytes of the rows. */
  size: number;
}

/** Bytes of the rows in a state or a side document; MongoDB limits a document to 16 MB. */
export const MAX_BYTES = 8 * 1024 * 1024;
const MAX_ROW_BYTES = 16_000_000;

const codecs = {
  events: createCodec(events),
  logs: createCodec(logs),
  outbox: createCodec(outbox),
  states: createCodec(states),
};

/** Makes the documents of events in pieces: there may be thousands. @throws Error if a row exceeds the limit of a document */
export async function documentsOf({ state, ifVersion, ...commit }: RunCommit): Promise<RunDocuments> {
  let size = 0;
  const measured = <R extends Document>(row: R): R => {
    const bytes = sizeOf(row);
    if (bytes > MAX_ROW_BYTES)
      throw new Error(`A row of ${bytes} bytes exceeds the limit of ${MAX_ROW_BYTES} bytes.`);
    size += bytes;
    return row;
  };
  const rows: Appended = {
    events: [],
    logs: commit.logs.map((row) => measured(codecs.logs.document(row, 1))),
    outbox: commit.outbox ? [measured(codecs.outbox.document(commit.outbox, 1))] : [],
  };
  const ranges = new Map<string, { first: string; last: string }>();
  const extend = (stream: string, key: string) => {
    const range = ranges.get(stream) ?? { first: key, last: key };
    ranges.set(stream, {
      first: key < range.first ? key : range.first,
      last: key > range.last ? key : range.last,
    });
  };
  await inPieces(commit.events, (row) => {
    rows.events.push(measured(codecs.events.document(row, 1)));
    extend(row.stream, row.sort_key);
    return row.payload.length;
  });
  for (const { sort_key } of commit.logs) extend('$logs', sort_key);
  const lastKeys: Document = {};
  const increasing: Document[] = [];
  for (const [stream, { first, last }] of ranges) {
    const field = `_last_${stream.replace('$', '')}`;
    lastKeys[field] = last;
    increasing.push({ $or: [{ [field]: null }, { [field]: { $lt: first } }] });
  }
  const large = ifVersion === 0 ? { db: {}, dedupe: {} } : {};
  const { _id, ...document } = codecs.states.document({ ...large, ...state } as never, ifVersion + 1);
  return {
    id: encodeString(state.id),
    token: randomUUID(),
    ifVersion,
    epoch: state.epoch,
    state: { ...document, ...lastKeys },
    increasing,
    rows,
    size,
  };
}

export const joinRows = (all: readonly Appended[]): Appended => ({
  events: all.flatMap(({ events: rows }) => rows),
  logs: all.flatMap(({ logs: rows }) => rows),
  outbox: all.flatMap(({ outbox: rows }) => rows),
});

/** Splits the rows, in order, into parts that fit in a document. */
export function splitRows(rows: Appended): Appended[] {
  const parts: Appended[] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const kind of ['events', 'logs', 'outbox'] as const) {
    for (const row of rows[kind] as StoredRow[]) {
      const bytes = sizeOf(row);
      if (size + bytes > MAX_BYTES) {
        parts.push({ events: [], logs: [], outbox: [] });
        size = 0;
      }
      parts.at(-1)![kind].push(row);
      size += bytes;
    }
  }
  return parts;
}
