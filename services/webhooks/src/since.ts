import { invalidParameter } from '@wellspring/core/problem';

/** ISO 8601, with a date at least; a time without zone is UTC. */
const ISO = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/;

/**
 * Epoch ms of a time given in ISO 8601 or epoch seconds.
 * @throws Problem 400 naming `since`
 */
export function parseSince(given: string | number): number {
  const since = String(given);
  if (/^\d{1,11}(?:\.\d+)?$/.test(since)) return Number(since) * 1000;
  if (ISO.test(since)) {
    const zoned = since.length === 10 || /(?:Z|[+-]\d{2}:?\d{2})$/.test(since) ? since : `${since}Z`;
    const ms = Date.parse(zoned);
    if (!Number.isNaN(ms)) return ms;
  }
  throw invalidParameter('since', 'since has to be a time in ISO 8601 or epoch seconds.');
}
