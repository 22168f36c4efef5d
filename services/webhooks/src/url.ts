import { invalidParameter } from '@wellspring/core/problem';

const MAX_LENGTH = 4096;

/** Checks that a webhook URL has http or https and a hostname. @throws Problem 400 */
export function checkUrl(url: string): string {
  const refuse = (why: string) => invalidParameter('url', `The URL ${why}.`);
  if (url.length > MAX_LENGTH) throw refuse(`is longer than ${MAX_LENGTH} characters`);
  if (!/^https?:\/\//i.test(url)) throw refuse('must start with http:// or https://');
  // The URL parser accepts `http:///path` with the host `path`.
  if (/^https?:\/\/[/?#\\:]/i.test(url) || !URL.canParse(url)) throw refuse('must contain a valid hostname');
  if (/[\s\p{Cc}]/u.test(url)) throw refuse('must not contain white space');
  return url;
}
