import { invalidParameter } from '@wellspring/core/problem';

/** ISO 8601: a date with an optional time; without zone UTC. */
const ISO = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/;

/** Parses ISO 8601 or epoch seconds to epoch ms. @throws Problem 400 */
export function parseSince(given: string | number): number {
  const since = String(given);
  if (/^\d{1,11}(?:\.\d+)?$/.test(since)) return Number(since) * 1000;
  if (ISO.test(since)) {
    const zoned = since.length === 10 || /(?:Z|[+-]\d{2}:?\d{2})$/.test(since) ? since : `${since}Z`;
    const ms = Date.parse(zoned);
    if (!Number.isNaN(ms)) return ms;
  }
  throw invalidParameter('since', 'since must be a time in ISO 8601 or epoch seconds.');
}
