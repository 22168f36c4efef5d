const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Waits before attempt 1, 2, … of a delivery, in ms (Standard Webhooks' example table). */
export const RETRY_TABLE: readonly number[] = [
  0,
  5 * SECOND,
  5 * MINUTE,
  30 * MINUTE,
  2 * HOUR,
  5 * HOUR,
  10 * HOUR,
  14 * HOUR,
  20 * HOUR,
  24 * HOUR,
];

const JITTER = 0.2;
const MAX_RETRY_AFTER = 24 * HOUR;

/**
 * Ms to wait after `tries` failed attempts; undefined for no further attempt.
 * @param random in [0, 1): spreads the wait by ±20 %
 * @param retryAfterMs the receiver's Retry-After: minimum wait, at most 24 h
 */
export function retryDelay(tries: number, random: number, retryAfterMs?: number): number | undefined {
  const planned = RETRY_TABLE[tries];
  if (planned === undefined) return undefined;
  const spread = planned * (1 - JITTER + 2 * JITTER * random);
  return Math.round(Math.max(spread, Math.min(retryAfterMs ?? 0, MAX_RETRY_AFTER)));
}

/** `Retry-After` in ms, from seconds (at most 24 h) or an HTTP date; undefined when it is malformed. */
export function parseRetryAfter(value: string | undefined, now: number): number | undefined {
  if (value === undefined) return undefined;
  if (/^\d+$/.test(value.trim())) return Math.min(Number(value) * SECOND, MAX_RETRY_AFTER);
  // Date.parse accepts `1.5`, too; an HTTP date starts with a day of the week.
  const date = /^\s*[A-Za-z]{3,9},? /.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
