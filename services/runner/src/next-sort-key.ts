import { eventSortKey, formatEventId, nextEventId, parseSortKey } from '@wellspring/core/event-id';

/** Allocates the next `count` sort keys of a stream; returns the first and the updated `last_ids`. */
export function nextSortKey(
  lastIds: Readonly<Record<string, string>>,
  stream: string,
  now: number,
  count = 1,
): { sortKey: { text: string; eventId: string }; lastIds: Record<string, string> } {
  const last = lastIds[stream];
  const first = nextEventId(last === undefined ? undefined : parseSortKey(last), now);
  return {
    sortKey: { text: eventSortKey(first), eventId: formatEventId(first) },
    lastIds: { ...lastIds, [stream]: eventSortKey({ ms: first.ms, n: first.n + count - 1 }) },
  };
}

/** The ids of an allocation, by index: they share a millisecond. */
export interface Ids {
  sortKey(index: number): string;
  eventId(index: number): string;
}

/** @param first sort key, as allocated */
export function idsFrom(first: string): Ids {
  const { ms, n } = parseSortKey(first);
  return {
    sortKey: (index) => eventSortKey({ ms, n: n + index }),
    eventId: (index) => formatEventId({ ms, n: n + index }),
  };
}
