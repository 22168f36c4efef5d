import { randomUUID } from 'node:crypto';
import { sizeOf } from '@wellspring/mongodb/client';
import { events, logs } from './collections/events.ts';
import { outbox } from './collections/outbox.ts';
import type { Appended } from './mongodb-pending.ts';
import { createCodec, encodeString, type StoredRow } from './mongodb-row.ts';
import type { RunCommit } from './port.ts';

/** By stream: the least and the greatest place of the rows that a commit appends. */
type Places = Map<string, { least: string; greatest: string }>;

/** A commit that waits for its turn. */
export interface Waiting {
  commit: RunCommit;
  rows: Appended;
  places: Places;
  /** Bytes of the rows. */
  size: number;
  /** It is not written together with others of its state. */
  alone: boolean;
  resolve(done: boolean): void;
  reject(error: unknown): void;
}

/** Commits of one state that follow one another, written as one. */
export interface Chain {
  /** `_id` of the state. */
  id: string;
  /** Names the commit in the state. */
  token: string;
  ifVersion: number;
  /** The token that the state must have, where this process wrote the commit before it and does not know its outcome. */
  after: string | undefined;
  /** Of the state afterwards. */
  version: number;
  waiting: Waiting[];
  rows: Appended;
  places: Places;
  size: number;
}

/** A commit that was written, or may have been. */
export type Written = Pick<Chain, 'token' | 'version'>;

/** Of the rows that a state carries, and of a part of those that it does not: a document has at most 16 MB. */
export const MOST_BYTES = 8 * 1024 * 1024;
const MOST_BYTES_OF_A_ROW = 16_000_000;

const codecs = { events: createCodec(events), logs: createCodec(logs), outbox: createCodec(outbox) };

/** @throws Error when a row is too large for any document */
export function prepare(commit: RunCommit): Omit<Waiting, 'resolve' | 'reject'> {
  const rows: Appended = {
    events: commit.events.map((row) => codecs.events.document(row, 1)),
    logs: commit.logs.map((row) => codecs.logs.document(row, 1)),
    outbox: commit.outbox ? [codecs.outbox.document(commit.outbox, 1)] : [],
  };
  const places: Places = new Map();
  for (const { stream, sort_key } of commit.events) addPlace(places, stream, sort_key, sort_key);
  for (const { sort_key } of commit.logs) addPlace(places, '$logs', sort_key, sort_key);
  let size = 0;
  for (const row of Object.values(rows).flat()) {
    const bytes = sizeOf(row);
    if (bytes > MOST_BYTES_OF_A_ROW) throw new Error(`A row of ${bytes} bytes cannot be stored.`);
    size += bytes;
  }
  return { commit, rows, places, size, alone: false };
}

function addPlace(places: Places, stream: string, least: string, greatest: string): void {
  const known = places.get(stream);
  places.set(stream, {
    least: known && known.least < least ? known.least : least,
    greatest: known && known.greatest > greatest ? known.greatest : greatest,
  });
}

/** @param before what this process wrote, or tried to, to the state */
export function startChain(waiting: Waiting, before?: Written): Chain {
  const { commit, rows, places, size } = waiting;
  return {
    id: encodeString(commit.state.id),
    token: randomUUID(),
    ifVersion: commit.ifVersion,
    after: before?.version === commit.ifVersion ? before.token : undefined,
    version: commit.ifVersion + 1,
    waiting: [waiting],
    rows,
    places: new Map(places),
    size,
  };
}

/** Adds the commit when it builds on the last one of the chain, and the rows stay few enough. */
export function extend(chain: Chain, next: Waiting): boolean {
  const follows =
    next.commit.ifVersion === chain.version && !next.alone && !chain.waiting.some(({ alone }) => alone);
  if (!follows || chain.size + next.size > MOST_BYTES) return false;
  for (const [stream, { least }] of next.places) {
    if (least <= (chain.places.get(stream)?.greatest ?? '')) return false;
  }
  for (const [stream, { least, greatest }] of next.places) addPlace(chain.places, stream, least, greatest);
  chain.version += 1;
  chain.waiting.push(next);
  chain.rows = joinRows([chain.rows, next.rows]);
  chain.size += next.size;
  return true;
}

export const joinRows = (all: readonly Appended[]): Appended => ({
  events: all.flatMap(({ events: rows }) => rows),
  logs: all.flatMap(({ logs: rows }) => rows),
  outbox: all.flatMap(({ outbox: rows }) => rows),
});

/** The rows in their order, in as few parts as may be documents. */
export function splitRows(rows: Appended): Appended[] {
  const parts: Appended[] = [];
  let size = Number.POSITIVE_INFINITY;
  for (const kind of ['events', 'logs', 'outbox'] as const) {
    for (const row of rows[kind] as StoredRow[]) {
      const bytes = sizeOf(row);
      if (size + bytes > MOST_BYTES) {
        parts.push({ events: [], logs: [], outbox: [] });
        size = 0;
      }
      parts.at(-1)![kind].push(row);
      size += bytes;
    }
  }
  return parts;
}
