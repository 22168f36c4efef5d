import {
  eventIdOfSortKey,
  eventSortKey,
  formatEventId,
  nextEventId,
  parseEventId,
} from '@wellspring/core/event-id';

/** Digits of `n` in a sort key. */
const N_DIGITS = 9;

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

/** The ids of an allocation, by index: they share a millisecond. */
export interface Ids {
  sortKey(index: number): string;
  eventId(index: number): string;
}

/** @param first sort key, as allocated */
export function idsFrom(first: string): Ids {
  const { ms, n } = parseEventId(eventIdOfSortKey(first))!;
  const [keyPrefix, idPrefix] = [first.slice(0, -N_DIGITS), `${ms}-`];
  return {
    sortKey: (index) => keyPrefix + String(n + index).padStart(N_DIGITS, '0'),
    eventId: (index) => idPrefix + (n + index),
  };
}
