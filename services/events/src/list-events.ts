import {
  getSourceEvent,
  listSourceEmits,
  listSourceErrors,
  listSourceEvents,
  listSourceLogs,
  listWorkflowErrors,
  listWorkflowEvents,
  listWorkflowLogs,
} from '@wellspring/contract/endpoints/events';
import { LIMITS } from '@wellspring/contract/limits';
import type { Hold } from '@wellspring/core/byte-budget';
import { decodeCursor } from '@wellspring/core/cursor';
import { eventSortKey, parseEventId } from '@wellspring/core/event-id';
import { invalidParameter, notFound, unavailable } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { DEFAULT_LIMIT } from '@wellspring/http/paging';
import type { Deps } from '@wellspring/runtime/deps';
import { assertReadableEmitter, assertReadableSource, assertReadableWorkflow } from './access.ts';
import { type Channel, channelOf, lastOutside } from './channel.ts';
import { type EventRecord, summaryOf } from './record.ts';

interface ListInput {
  limit?: number | undefined;
  after?: string | undefined;
  before?: string | undefined;
  expand?: string | undefined;
}

/** Memory that a page may take. */
export interface PageMemory {
  /** Of the request. */
  hold: Hold;
  /** A page of expanded events ends at this size. */
  maxBytes: number;
}

type Shown = ReturnType<typeof summaryOf>;

/** Events of a read, and their usual size; events of the first read, whose size is not known. */
const CHUNK_SIZE = 16;
const CHUNK_BYTES = 8 * 1024 * 1024;
const FIRST_CHUNK_SIZE = 4;
/** At least the size of an event in an answer without text and metadata. */
const OTHER_BYTES = 256;
const MAX_PAGE_BYTES = 32 * 1024 * 1024;

const keyOf = (cursor: string, param: 'after' | 'before') =>
  eventSortKey(parseEventId(decodeCursor(cursor, param, 'event'))!);

/**
 * One page of the newest 100 events of a channel, newest first; event ids are the cursors.
 * @throws Problem 400, or 503 without memory for one event
 */
export async function pageOf(channel: Channel, input: ListInput, memory: PageMemory) {
  const { after, before, expand } = input;
  const limit = Math.min(input.limit ?? DEFAULT_LIMIT, LIMITS.retrievable);
  if (after !== undefined && before !== undefined) {
    throw invalidParameter('before', 'Only one of after and before can be given.');
  }
  const total_count = await channel.countNewer('', LIMITS.retrievable);
  const read = createReader(limit, expand === 'event', memory);
  const data =
    before !== undefined
      ? await pageBefore(channel, keyOf(before, 'before'), read)
      : await pageAfter(channel, after === undefined ? undefined : keyOf(after, 'after'), read);
  return { total_count, cursors: 'raw' as const, data };
}

async function eventAt(channel: Channel, key: string): Promise<EventRecord | undefined> {
  const [newest] = await channel.older(`${key}~`, 1);
  return newest?.sortKey === key ? newest : undefined;
}

/** One event by its id, also beyond the newest 100. @throws Problem 404, or 503 without memory */
export async function findEvent(channel: Channel, eventId: string, hold: Hold) {
  const id = parseEventId(eventId);
  const record = id && (await eventAt(channel, eventSortKey(id)));
  if (!record) throw notFound('event', eventId);
  if (!hold.take(Buffer.byteLength(record.payload))) throw unavailable();
  return summaryOf(record, true);
}

/** Reads up to `limit` events of a page. */
type Reader = (
  /** The next events after the one with this sort key. */
  next: (last: string | undefined, size: number) => Promise<EventRecord[]>,
  /** At most this many; default: the limit. */
  atMost?: number,
) => Promise<Shown[]>;

/** Events are read in chunks, and kept as far as they are shown. @throws Problem 503 without memory for one event */
function createReader(limit: number, expand: boolean, { hold, maxBytes }: PageMemory): Reader {
  return async (next, atMost = limit) => {
    const wanted = Math.min(limit, atMost);
    const shown: Shown[] = [];
    let last: string | undefined;
    let [read, kept] = [0, 0];
    for (let size = Math.min(FIRST_CHUNK_SIZE, wanted); size > 0; ) {
      const chunk = await next(last, size);
      for (const record of chunk) {
        const length = Buffer.byteLength(record.payload);
        // The start of a text is sent as a JSON string: its quotes and backslashes take two bytes.
        const isCut = !expand && length > LIMITS.summaryBytes;
        const text = isCut ? 2 * LIMITS.summaryBytes : length;
        const bytes = text + Buffer.byteLength(JSON.stringify(record.metadata)) + OTHER_BYTES;
        if (!hold.take(bytes)) {
          if (shown.length > 0) return shown;
          throw unavailable();
        }
        shown.push(summaryOf(record, expand));
        last = record.sortKey;
        read += length;
        kept += bytes;
        if (kept >= maxBytes) return shown;
      }
      if (chunk.length < size) break;
      const usual = Math.ceil((CHUNK_BYTES * shown.length) / read);
      size = Math.min(CHUNK_SIZE, usual, wanted - shown.length);
    }
    return shown;
  };
}

/** Events older than the cursor, among the newest 100. */
async function pageAfter(channel: Channel, key: string | undefined, read: Reader): Promise<Shown[]> {
  const older = (last: string | undefined, size: number) => channel.older(last ?? key, size);
  if (key === undefined) return read(older);
  const newer = await channel.countNewer(key, LIMITS.retrievable);
  return read(older, LIMITS.retrievable - newer - ((await eventAt(channel, key)) ? 1 : 0));
}

/** The nearest newer events, among the newest 100. */
async function pageBefore(channel: Channel, key: string, read: Reader): Promise<Shown[]> {
  const isOutside = (await channel.countNewer(key, LIMITS.retrievable + 1)) > LIMITS.retrievable;
  const bound = isOutside ? await lastOutside(channel) : key;
  return (await read((last, size) => channel.newer(last ?? bound, size))).reverse();
}

/** Lists of the events, errors and logs of sources and workflows, and single events. */
export function listRoutes({ store, memory }: Pick<Deps, 'store' | 'memory'>): Route[] {
  const maxBytes = Math.min(MAX_PAGE_BYTES, memory.api.total / 4);
  return [
    route(listSourceEvents, async ({ principal, params, input, hold }) => {
      await assertReadableEmitter(store, principal, params.id);
      return pageOf(channelOf(store, params.id, input.event_name), input, { hold, maxBytes });
    }),
    route(getSourceEvent, async ({ principal, params, input, hold }) => {
      await assertReadableSource(store, principal, params.id);
      return findEvent(channelOf(store, params.id, input.event_name), params.event_id, hold);
    }),
    route(listSourceEmits, async ({ principal, params, input, hold }) => {
      await assertReadableSource(store, principal, params.id);
      const channel = channelOf(store, params.id, input.event_name);
      const { data } = await pageOf(channel, { limit: input.n, expand: 'event' }, { hold, maxBytes });
      return data.map(({ id, event, indexed_at_ms }) => ({
        id,
        k: 'emit' as const,
        e: event,
        ts: indexed_at_ms,
      }));
    }),
    route(listSourceErrors, async ({ principal, params, input, hold }) => {
      await assertReadableSource(store, principal, params.id);
      return pageOf(channelOf(store, params.id, '$errors'), input, { hold, maxBytes });
    }),
    route(listSourceLogs, async ({ principal, params, input, hold }) => {
      await assertReadableSource(store, principal, params.id);
      return pageOf(channelOf(store, params.id, '$logs'), input, { hold, maxBytes });
    }),
    route(listWorkflowEvents, async ({ principal, params, input, hold }) => {
      await assertReadableWorkflow(store, principal, params.id);
      return pageOf(channelOf(store, params.id, input.event_name), input, { hold, maxBytes });
    }),
    route(listWorkflowErrors, async ({ principal, params, input, hold }) => {
      await assertReadableWorkflow(store, principal, params.id);
      return pageOf(channelOf(store, params.id, '$errors'), input, { hold, maxBytes });
    }),
    route(listWorkflowLogs, async ({ principal, params, input, hold }) => {
      await assertReadableWorkflow(store, principal, params.id);
      return pageOf(channelOf(store, params.id, '$logs'), input, { hold, maxBytes });
    }),
  ];
}
