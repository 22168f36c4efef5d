import type { IncomingMessage } from 'node:http';

const ABSOLUTE = /^https?:\/\/([^/?#@]+)((?:[/?][^#]*)?)$/i;

/**
 * Brings a request into the form that is read everywhere: a target that is a path, and one Host header. Its host decides
 * whose endpoint is called, so that two readers must not find different ones (RFC 9112, section 3.2).
 * @returns false if it has no such form
 */
export function normalizeTarget(
  req: Pick<IncomingMessage, 'method' | 'url' | 'headers' | 'rawHeaders'>,
): boolean {
  const names = req.rawHeaders.filter((_, index) => index % 2 === 0);
  if (names.filter((name) => name.toLowerCase() === 'host').length > 1) return false;
  const { method, url = '/' } = req;
  if (url.startsWith('/') || (url === '*' && method === 'OPTIONS')) return true;
  // As sent to a proxy; a server has to accept it. Its host is the one that counts.
  const [, host, rest = ''] = ABSOLUTE.exec(url) ?? [];
  if (host === undefined) return false;
  req.headers.host = host;
  req.url = rest.startsWith('/') ? rest : `/${rest}`;
  return true;
}
