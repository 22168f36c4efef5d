import { afterAll } from '@jest/globals';
import { UNLIMITED } from '@wellspring/core/byte-budget';
import { eventSortKey } from '@wellspring/core/event-id';
import { stringify } from '@wellspring/core/json-text';
import { type EventRow, type EventStream, events, logs } from '@wellspring/store/collections/events';
import { eventRow, logRow } from '@wellspring/testing/rows';
import { openPorts } from '@wellspring/testing/service-harness';
import type { Channel } from './channel.ts';
import { pageOf as pageWithin } from './list-events.ts';

/** Stored events and logs. */

const ports = openPorts();
export const { store } = ports;
afterAll(() => ports.close());

const BASE = 1_700_000_000_000;
let emitters = 0;
export const newEmitter = (prefix = 'dc') => `${prefix}_${String(++emitters).padStart(10, '0')}`;

export function eventOf(emitterId: string, n: number, name = '', stream: EventStream = 'events'): EventRow {
  // Two events share a millisecond.
  const sortKey = eventSortKey({ ms: BASE + Math.floor(n / 2), n: n % 2 });
  return eventRow(emitterId, sortKey, { stream, name, indexed_at_ms: BASE + n, payload: String(n) });
}

export const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
export const insertEvents = (
  emitterId: string,
  numbers: readonly number[],
  name?: string,
  stream?: EventStream,
) => store.collection(events).insertMany(numbers.map((n) => eventOf(emitterId, n, name, stream)));

/** Logs of a run: one row per length, with consecutive records. */
export async function insertLogs(emitterId: string, lengths: readonly number[]): Promise<void> {
  let n = 0;
  for (const [run, count] of lengths.entries()) {
    const records = JSON.stringify(Array.from({ length: count }, () => n++));
    const fields = { run_id: `run_${run}`, indexed_at_ms: BASE + run, count, records };
    await store.collection(logs).insert(logRow(emitterId, eventSortKey({ ms: BASE + run, n: 0 }), fields));
  }
}

/** A value as a client reads it. */
export const parsed = <T extends object>(value: T): T => JSON.parse(stringify(value));

/** A page of any size. */
export const pageOf = async (channel: Channel, input: Parameters<typeof pageWithin>[1]) =>
  parsed(await pageWithin(channel, input, { hold: UNLIMITED, maxBytes: Number.POSITIVE_INFINITY }));

/** Reads all pages from the newest on. */
export async function walk(channel: Channel, limit: number): Promise<unknown[]> {
  const seen: unknown[] = [];
  for (let after: string | undefined; ; ) {
    const { data } = await pageOf(channel, { limit, after });
    if (data.length === 0) return seen;
    seen.push(...data.map(({ event }) => event));
    after = data.at(-1)!.id;
  }
}
