import { eventSortKey, formatEventId, nextEventId, parseSortKey } from '@wellspring/core/event-id';

/** The ids of an allocation, by index: they share a millisecond. */
export interface Ids {
  sortKey(index?: number): string;
  eventId(index?: number): string;
}

/** Allocates the next `count` ids of a stream; returns them and the updated `last_ids`. */
export function allocateIds(
  lastIds: Readonly<Record<string, string>>,
  stream: string,
  now: number,
  count = 1,
): { ids: Ids; lastIds: Record<string, string> } {
  const last = lastIds[stream];
  const { ms, n } = nextEventId(last === undefined ? undefined : parseSortKey(last), now);
  const sortKey = (index = 0) => eventSortKey({ ms, n: n + index });
  return {
    ids: { sortKey, eventId: (index = 0) => formatEventId({ ms, n: n + index }) },
    lastIds: { ...lastIds, [stream]: sortKey(count - 1) },
  };
}
