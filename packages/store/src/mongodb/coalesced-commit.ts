import { randomUUID } from 'node:crypto';
import { sizeOf } from '@wellspring/mongodb/client';
import { events, logs } from '../collections/events.ts';
import { outbox } from '../collections/outbox.ts';
import type { RunCommit } from '../run-commit.ts';
import type { Appended } from './pending-rows.ts';
import { createCodec, encodeString, type StoredRow } from './row.ts';

/** By stream: the sort-key range of the rows that a commit appends. */
type SortKeyRanges = Map<string, { first: string; last: string }>;

/** A commit that waits to be written. */
export interface WaitingCommit {
  commit: RunCommit;
  rows: Appended;
  ranges: SortKeyRanges;
  /** Bytes of the rows. */
  size: number;
  /** It must not be coalesced. */
  alone: boolean;
  resolve(done: boolean): void;
  reject(error: unknown): void;
}

/** Successive commits of one state, written as one. */
export interface CoalescedCommit {
  /** `_id` of the state. */
  id: string;
  /** Identifies the commit in the state document. */
  token: string;
  ifVersion: number;
  /** Required `_commit` of the state: set when this process wrote the previous commit and does not know its outcome. */
  after: string | undefined;
  /** Version of the state afterwards. */
  version: number;
  waiting: WaitingCommit[];
  rows: Appended;
  ranges: SortKeyRanges;
  size: number;
}

/** A commit that was sent to the server. */
export type SentCommit = Pick<CoalescedCommit, 'token' | 'version'>;

/** Bytes of the rows in a state or a side document; MongoDB limits a document to 16 MB. */
export const MAX_BYTES = 8 * 1024 * 1024;
const MAX_ROW_BYTES = 16_000_000;

const codecs = { events: createCodec(events), logs: createCodec(logs), outbox: createCodec(outbox) };

/** @throws Error if a row exceeds the limit of a document */
export function prepare(commit: RunCommit): Omit<WaitingCommit, 'resolve' | 'reject'> {
  const rows: Appended = {
    events: commit.events.map((row) => codecs.events.document(row, 1)),
    logs: commit.logs.map((row) => codecs.logs.document(row, 1)),
    outbox: commit.outbox ? [codecs.outbox.document(commit.outbox, 1)] : [],
  };
  const ranges: SortKeyRanges = new Map();
  for (const { stream, sort_key } of commit.events) extendRange(ranges, stream, sort_key, sort_key);
  for (const { sort_key } of commit.logs) extendRange(ranges, '$logs', sort_key, sort_key);
  let size = 0;
  for (const row of Object.values(rows).flat()) {
    const bytes = sizeOf(row);
    if (bytes > MAX_ROW_BYTES)
      throw new Error(`A row of ${bytes} bytes exceeds the limit of ${MAX_ROW_BYTES} bytes.`);
    size += bytes;
  }
  return { commit, rows, ranges, size, alone: false };
}

function extendRange(ranges: SortKeyRanges, stream: string, first: string, last: string): void {
  const range = ranges.get(stream);
  ranges.set(stream, {
    first: range && range.first < first ? range.first : first,
    last: range && range.last > last ? range.last : last,
  });
}

/** @param previous the last commit that this process sent for the state */
export function startCoalesced(waiting: WaitingCommit, previous?: SentCommit): CoalescedCommit {
  const { commit, rows, ranges, size } = waiting;
  return {
    id: encodeString(commit.state.id),
    token: randomUUID(),
    ifVersion: commit.ifVersion,
    after: previous?.version === commit.ifVersion ? previous.token : undefined,
    version: commit.ifVersion + 1,
    waiting: [waiting],
    rows,
    ranges: new Map(ranges),
    size,
  };
}

/** Adds the commit if it builds on the last one, its sort keys increase, and the size limit holds. */
export function coalesce(coalesced: CoalescedCommit, next: WaitingCommit): boolean {
  const follows =
    next.commit.ifVersion === coalesced.version &&
    !next.alone &&
    !coalesced.waiting.some(({ alone }) => alone);
  if (!follows || coalesced.size + next.size > MAX_BYTES) return false;
  for (const [stream, { first }] of next.ranges) {
    if (first <= (coalesced.ranges.get(stream)?.last ?? '')) return false;
  }
  for (const [stream, { first, last }] of next.ranges) extendRange(coalesced.ranges, stream, first, last);
  coalesced.version += 1;
  coalesced.waiting.push(next);
  coalesced.rows = joinRows([coalesced.rows, next.rows]);
  coalesced.size += next.size;
  return true;
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
