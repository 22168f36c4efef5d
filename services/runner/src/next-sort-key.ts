import {
  eventIdOfSortKey,
  eventSortKey,
  formatEventId,
  nextEventId,
  parseEventId,
} from '@wellspring/core/event-id';

/** Allocates the next `count` sort keys of a stream; returns the first and the updated `last_ids`. */
export function nextSortKey(
  lastIds: Readonly<Record<string, string>>,
  stream: string,
  now: number,
  count = 1,
): { sortKey: { text: string; eventId: string }; lastIds: Record<string, string> } {
  const last = lastIds[stream];
  const first = nextEventId(last === undefined ? undefined : parseEventId(eventIdOfSortKey(last)), now);
  return {
    sortKey: { text: eventSortKey(first), eventId: formatEventId(first) },
    lastIds: { ...lastIds, [stream]: eventSortKey({ ms: first.ms, n: first.n + count - 1 }) },
  };
}
