/** An event id: `<epoch ms>-<n>`, where n counts the events of one emitter and stream within a millisecond. */
export interface EventId {
  ms: number;
  n: number;
}

const FORM = /^(\d{1,15})-(\d{1,9})$/;

/** @returns undefined when the text is malformed */
export function parseEventId(text: string): EventId | undefined {
  const parts = FORM.exec(text);
  return parts ? { ms: Number(parts[1]), n: Number(parts[2]) } : undefined;
}

export const formatEventId = ({ ms, n }: EventId): string => `${ms}-${n}`;

/** The id after `last`: later than it even when the clock went backwards. */
export function nextEventId(last: EventId | undefined, now: number): EventId {
  if (last === undefined || now > last.ms) return { ms: now, n: 0 };
  return { ms: last.ms, n: last.n + 1 };
}

/** A fixed-width text that sorts as the ids do: 15 digits, a hyphen, 9 digits. */
export const eventSortKey = ({ ms, n }: EventId): string =>
  `${String(ms).padStart(15, '0')}-${String(n).padStart(9, '0')}`;

/** The reverse of {@link eventSortKey}. */
export const parseSortKey = (key: string): EventId => ({
  ms: Number(key.slice(0, 15)),
  n: Number(key.slice(16)),
});

export const eventIdOfSortKey = (key: string): string => formatEventId(parseSortKey(key));
