import { invalidParameter } from '@wellspring/core/problem';

const LONGEST = 4096;

/**
 * A webhook's address as it was given, if it has http or https and a hostname.
 * @throws Problem 400 naming `url`
 */
export function checkUrl(url: string): string {
  const refuse = (why: string) => invalidParameter('url', `The URL ${why}.`);
  if (url.length > LONGEST) throw refuse(`is longer than ${LONGEST} characters`);
  if (!/^https?:\/\//i.test(url)) throw refuse('has to start with http:// or https://');
  // The URL parser would take `http:///path` for a host.
  if (/^https?:\/\/[/?#\\:]/i.test(url) || !URL.canParse(url)) throw refuse('has to hold a valid hostname');
  if (/[\s\p{Cc}]/u.test(url)) throw refuse('must not hold white space');
  return url;
}
