import { LIMITS } from '@wellspring/contract/limits';
import { eventSortKey, parseSortKey } from '@wellspring/core/event-id';
import {
  channelWhere,
  type EventRow,
  type EventStream,
  events,
  logs,
} from '@wellspring/store/collections/events';
import type { Store, Where } from '@wellspring/store/port';
import { type EventRecord, recordOfEvent, recordsOfLog } from './record.ts';

/** Events that are read at a time where only their keys are needed: they may be large. */
const CHUNK_SIZE = 4;

/** The events of one list or stream. All keys are sort keys (core/event-id); records include their payloads. */
export interface Channel {
  /** Identifies the channel within this process. */
  key: string;
  /** Newest first, older than `before` (exclusive; undefined: from the newest). */
  older(before: string | undefined, limit: number): Promise<EventRecord[]>;
  /** Oldest first, newer than `after` (exclusive). */
  newer(after: string, limit: number): Promise<EventRecord[]>;
  /** Number of events newer than `after` (exclusive), at most `atMost`. */
  countNewer(after: string, atMost: number): Promise<number>;
  newestKey(): Promise<string | undefined>;
}

/** Sort key of the 101st newest event; empty if there are fewer events. */
export async function lastOutside(channel: Channel): Promise<string> {
  let bound: string | undefined;
  for (let left = LIMITS.retrievable + 1; left > 0; ) {
    const chunk = await channel.older(bound, Math.min(CHUNK_SIZE, left));
    if (chunk.length === 0) return '';
    bound = chunk.at(-1)!.sortKey;
    left -= chunk.length;
  }
  return bound!;
}

/** The `event_name` of a request: absent means the default and all named channels. */
export function channelOf(store: Store, emitterId: string, eventName: string | undefined): Channel {
  if (eventName === '$logs') return logChannel(store, emitterId);
  return eventChannel(store, eventsWhere(emitterId, eventName));
}

/** Number of events after `after` up to `end`, of a channel other than `$logs`. @param eventName as of channelOf */
export const countBetween = (
  store: Store,
  emitterId: string,
  eventName: string | undefined,
  { after, end }: { after: string; end: string },
): Promise<number> =>
  store.collection(events).count({ ...eventsWhere(emitterId, eventName), sort_key: { gt: after, lte: end } });

/** Rows of a channel other than `$logs`. @param eventName as of channelOf */
export const eventsWhere = (emitterId: string, eventName: string | undefined) =>
  eventName === '$errors' || eventName === '$in'
    ? { partition: `${emitterId}/${eventName}` as const }
    : whereOf(emitterId, 'events', eventName);

/**
 * The stream of a workflow: its events and what it sends by `$.send.sse`, which share one sequence of ids.
 * @param eventName as of channelOf
 */
export function workflowStreamOf(store: Store, workflowId: string, eventName: string | undefined): Channel {
  const emitted = channelOf(store, workflowId, eventName);
  if (eventName?.startsWith('$')) return emitted;
  const sent = eventChannel(store, whereOf(workflowId, '$sse', eventName));
  const both = <T>(read: (channel: Channel) => Promise<T>) => Promise.all([read(emitted), read(sent)]);
  const newestKey = async () => {
    const keys = await both((channel) => channel.newestKey());
    return keys
      .filter((key) => key !== undefined)
      .sort()
      .at(-1);
  };
  const compare = (a: EventRecord, b: EventRecord) => (a.sortKey < b.sortKey ? -1 : 1);
  return {
    key: `stream:${emitted.key}`,
    async older(before, limit) {
      const found = await both((channel) => channel.older(before, limit));
      return found.flat().sort(compare).reverse().slice(0, limit);
    },
    async newer(after, limit) {
      // A commit between the two reads must not move the cursor past its events in the other partition.
      const newest = (await newestKey()) ?? '';
      if (newest <= after) return [];
      const found = await both((channel) => channel.newer(after, limit));
      return found
        .flat()
        .filter(({ sortKey }) => sortKey <= newest)
        .sort(compare)
        .slice(0, limit);
    },
    async countNewer(after, atMost) {
      const [a, b] = await both((channel) => channel.countNewer(after, atMost));
      return Math.min(a + b, atMost);
    },
    newestKey,
  };
}

/** All channels of a stream, or one. */
const whereOf = (emitterId: string, stream: EventStream, name: string | undefined) =>
  name === undefined ? { partition: `${emitterId}/${stream}` } : channelWhere(emitterId, stream, name);

function eventChannel(store: Store, where: Pick<Where<EventRow>, 'partition' | 'channel'>): Channel {
  const rows = store.collection(events);
  const orderBy = 'sort_key';
  return {
    key: JSON.stringify(where),
    async older(before, limit) {
      const bound = before === undefined ? {} : { sort_key: { lt: before } };
      const found = await rows.list({ where: { ...where, ...bound }, orderBy, order: 'desc', limit });
      return found.map(recordOfEvent);
    },
    async newer(after, limit) {
      const found = await rows.list({
        where: { ...where, sort_key: { gt: after } },
        orderBy,
        order: 'asc',
        limit,
      });
      return found.map(recordOfEvent);
    },
    countNewer: (after, atMost) => rows.count({ ...where, sort_key: { gt: after } }, atMost),
    async newestKey() {
      const [row] = await rows.list({ where, orderBy, order: 'desc', limit: 1, texts: false });
      return row?.sort_key;
    },
  };
}

/** Position of a record among those of its millisecond, which all records of a row share. */
const indexOf = (key: string) => parseSortKey(key).n;

/** Sort key of the last record of a row. */
const lastKeyOf = (rowKey: string, count: number) => {
  const first = parseSortKey(rowKey);
  return eventSortKey({ ms: first.ms, n: first.n + count - 1 });
};

function logChannel(store: Store, emitterId: string): Channel {
  const rows = store.collection(logs);
  const orderBy = 'sort_key';

  async function older(before: string | undefined, limit: number): Promise<EventRecord[]> {
    const records: EventRecord[] = [];
    let bound = before;
    while (records.length < limit) {
      const [row] = await rows.list({
        where: { emitter_id: emitterId, ...(bound !== undefined && { sort_key: { lt: bound } }) },
        orderBy,
        order: 'desc',
        limit: 1,
      });
      if (!row) break;
      bound = row.sort_key;
      const expanded = recordsOfLog(row).reverse();
      records.push(...expanded.filter((one) => before === undefined || one.sortKey < before));
    }
    return records.slice(0, limit);
  }

  /** Of the row that contains the record `after`: its key and the number of its newer records, if there are any. */
  async function restOfRow(after: string) {
    const [row] = await rows.list({
      where: { emitter_id: emitterId, sort_key: { lte: after } },
      orderBy,
      order: 'desc',
      limit: 1,
      texts: false,
    });
    if (!row || lastKeyOf(row.sort_key, row.count) <= after) return undefined;
    return { key: row.sort_key, count: row.count - (indexOf(after) - indexOf(row.sort_key) + 1) };
  }

  return {
    key: `logs:${emitterId}`,
    older,
    async newer(after, limit) {
      const records: EventRecord[] = [];
      const rest = await restOfRow(after);
      let bound: { gt?: string; gte?: string } = rest ? { gte: rest.key } : { gt: after };
      // One by one: a row can be up to 2 MB.
      while (records.length < limit) {
        const [row] = await rows.list({
          where: { emitter_id: emitterId, sort_key: bound },
          orderBy,
          order: 'asc',
          limit: 1,
        });
        if (!row) break;
        bound = { gt: row.sort_key };
        records.push(...recordsOfLog(row).filter((one) => one.sortKey > after));
      }
      return records.slice(0, limit);
    },
    async countNewer(after, atMost) {
      const rest = await restOfRow(after);
      // Every row has at least one record.
      const later = await rows.list({
        where: { emitter_id: emitterId, sort_key: { gt: after } },
        orderBy,
        order: 'asc',
        limit: atMost,
        texts: false,
      });
      const total = later.reduce((sum, { count }) => sum + count, rest?.count ?? 0);
      return Math.min(total, atMost);
    },
    async newestKey() {
      const where = { emitter_id: emitterId };
      const [row] = await rows.list({ where, orderBy, order: 'desc', limit: 1, texts: false });
      return row && lastKeyOf(row.sort_key, row.count);
    },
  };
}
