import {
  getSourceEvent,
  listSourceErrors,
  listSourceEvents,
  listSourceLogs,
  listWorkflowErrors,
  listWorkflowEvents,
  listWorkflowLogs,
} from '@wellspring/contract/endpoints/events';
import { LIMITS } from '@wellspring/contract/limits';
import { decodeCursor } from '@wellspring/core/cursor';
import { eventSortKey, parseEventId } from '@wellspring/core/event-id';
import { invalidParameter, notFound } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import type { Deps } from '@wellspring/runtime/deps';
import { assertReadableSource, assertReadableWorkflow } from './access.ts';
import { type Channel, channelOf } from './channel.ts';
import { type EventRecord, summaryOf } from './record.ts';

interface ListInput {
  limit?: number | undefined;
  after?: string | undefined;
  before?: string | undefined;
  expand?: string | undefined;
}

const DEFAULT_LIMIT = 10;
/** Events per read, so that a page of large events is not in memory twice. */
const CHUNK_SIZE = 16;
/** A page of expanded events ends at this size. */
const MAX_PAGE_BYTES = 32 * 1024 * 1024;

const keyOf = (cursor: string, param: 'after' | 'before') =>
  eventSortKey(parseEventId(decodeCursor(cursor, param, 'event'))!);

/** One page of the newest 100 events of a channel, newest first; event ids are the cursors. */
export async function pageOf(channel: Channel, input: ListInput) {
  const { after, before, expand } = input;
  const limit = Math.min(input.limit ?? DEFAULT_LIMIT, LIMITS.retrievable);
  if (after !== undefined && before !== undefined) {
    throw invalidParameter('before', 'Only one of after and before can be given.');
  }
  const total_count = await channel.countNewer('', LIMITS.retrievable);
  const records =
    before !== undefined
      ? await pageBefore(channel, keyOf(before, 'before'), limit)
      : await pageAfter(channel, after === undefined ? undefined : keyOf(after, 'after'), limit);
  return {
    total_count,
    cursors: 'raw' as const,
    data: records.map((record) => summaryOf(record, expand === 'event')),
  };
}

async function eventAt(channel: Channel, key: string): Promise<EventRecord | undefined> {
  const [newest] = await channel.older(`${key}~`, 1);
  return newest?.sortKey === key ? newest : undefined;
}

/** One event by its id, also beyond the newest 100. @throws Problem 404 */
export async function findEvent(channel: Channel, eventId: string) {
  const id = parseEventId(eventId);
  const record = id && (await eventAt(channel, eventSortKey(id)));
  if (!record) throw notFound('event', eventId);
  return summaryOf(record, true);
}

/** Events older than the cursor, among the newest 100. */
async function pageAfter(channel: Channel, key: string | undefined, limit: number): Promise<EventRecord[]> {
  let wanted = limit;
  if (key !== undefined) {
    const newer = await channel.countNewer(key, LIMITS.retrievable);
    wanted = Math.min(limit, LIMITS.retrievable - newer - ((await eventAt(channel, key)) ? 1 : 0));
  }
  const records: EventRecord[] = [];
  for (let bound = key, bytes = 0; records.length < wanted && bytes < MAX_PAGE_BYTES; ) {
    const size = Math.min(CHUNK_SIZE, wanted - records.length);
    const chunk = await channel.older(bound, size);
    records.push(...chunk);
    bytes += chunk.reduce((sum, one) => sum + one.payload.length, 0);
    if (chunk.length < size) break;
    bound = chunk.at(-1)!.sortKey;
  }
  return records;
}

/** The nearest newer events, among the newest 100. */
async function pageBefore(channel: Channel, key: string, limit: number): Promise<EventRecord[]> {
  if ((await channel.countNewer(key, LIMITS.retrievable + 1)) > LIMITS.retrievable) {
    return (await channel.older(undefined, LIMITS.retrievable)).slice(-limit);
  }
  return (await channel.newer(key, limit)).reverse();
}

/** Lists of the events, errors and logs of sources and workflows, and single events. */
export function listRoutes({ store }: Pick<Deps, 'store'>): Route[] {
  return [
    route(listSourceEvents, async ({ principal, params, input }) => {
      await assertReadableSource(store, principal, params.id);
      return pageOf(channelOf(store, params.id, input.event_name), input);
    }),
    route(getSourceEvent, async ({ principal, params, input }) => {
      await assertReadableSource(store, principal, params.id);
      return findEvent(channelOf(store, params.id, input.event_name), params.event_id);
    }),
    route(listSourceErrors, async ({ principal, params, input }) => {
      await assertReadableSource(store, principal, params.id);
      return pageOf(channelOf(store, params.id, '$errors'), input);
    }),
    route(listSourceLogs, async ({ principal, params, input }) => {
      await assertReadableSource(store, principal, params.id);
      return pageOf(channelOf(store, params.id, '$logs'), input);
    }),
    route(listWorkflowEvents, async ({ principal, params, input }) => {
      await assertReadableWorkflow(store, principal, params.id);
      return pageOf(channelOf(store, params.id, input.event_name), input);
    }),
    route(listWorkflowErrors, async ({ principal, params, input }) => {
      await assertReadableWorkflow(store, principal, params.id);
      return pageOf(channelOf(store, params.id, '$errors'), input);
    }),
    route(listWorkflowLogs, async ({ principal, params, input }) => {
      await assertReadableWorkflow(store, principal, params.id);
      return pageOf(channelOf(store, params.id, '$logs'), input);
    }),
  ];
}
