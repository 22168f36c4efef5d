import { invalidParameter } from '@wellspring/core/problem';

/** ISO 8601: a date with an optional time; without zone UTC. */
const ISO = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?$/;

/** Date.parse takes February 31 for a day in March. */
function isDay(day: string): boolean {
  const ms = Date.parse(day);
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(day);
}

/** Parses ISO 8601 or epoch seconds to epoch ms. @throws Problem 400 */
export function parseTime(param: string, given: string | number): number {
  const text = String(given);
  if (/^\d{1,11}(?:\.\d+)?$/.test(text)) return Number(text) * 1000;
  if (ISO.test(text)) {
    const zoned = text.length === 10 || /(?:Z|[+-]\d{2}:?\d{2})$/.test(text) ? text : `${text}Z`;
    const ms = Date.parse(zoned);
    if (!Number.isNaN(ms) && isDay(text.slice(0, 10))) return ms;
  }
  throw invalidParameter(param, `${param} must be a time in ISO 8601 or epoch seconds.`);
}
