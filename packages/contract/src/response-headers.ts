/**
 * Which headers of a component's response reach the client. At `{publicUrl}/e/{key}` a component shares its origin with
 * the API, its documentation and the components of other owners: it must not set headers that browsers apply to a whole
 * origin. On a host of its own it may.
 *
 * Content-Security-Policy is not here: the gateway adds a sandboxing policy on the shared origin. Location, Refresh and
 * WWW-Authenticate are passed on: they concern one request only, and webhooks and browsers need them.
 */

/** Headers of the connection, or of servers between the platform and the client. */
const CONNECTION = [
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'server',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'via',
];

/** Headers that affect the host and the reverse proxies of the operator. */
const OPERATOR = [
  // For the whole host.
  'alt-svc',
  // Instructions to reverse proxies: to read files, or to query other servers.
  'x-lighttpd-send-file',
  'x-litespeed-location',
  'x-reproxy-file',
  'x-reproxy-url',
  'x-sendfile',
  'x-sendfile2',
];

/** Instructions to nginx. */
const NGINX_PREFIX = 'x-accel-';

/** Headers that reach beyond a host, even the component's own: cookies are cleared up to the registrable domain. */
const BEYOND_HOST = ['clear-site-data', 'public-key-pins', 'public-key-pins-report-only', 'set-cookie2'];

/** Headers that browsers apply to the whole origin. */
const ORIGIN_WIDE = [
  'accept-ch',
  'access-control-allow-credentials',
  'attribution-reporting-register-source',
  'attribution-reporting-register-trigger',
  'critical-ch',
  'expect-ct',
  'nel',
  'origin-agent-cluster',
  'report-to',
  'reporting-endpoints',
  'sec-session-registration',
  'secure-session-registration',
  'service-worker-allowed',
  'set-cookie',
  'set-login',
  'shared-storage-write',
  'strict-transport-security',
  'use-as-dictionary',
  // Not origin-wide, but set by the platform on the shared origin.
  'x-request-id',
];

const NEVER = new Set([...CONNECTION, ...OPERATOR, ...BEYOND_HOST]);
const NOT_SHARED = new Set([...NEVER, ...ORIGIN_WIDE]);

export type ResponseHeaders = Record<string, string | string[]>;

/** Whether a cookie names a domain other than this host, such as a parent domain shared with other components. */
function isForeignCookie(cookie: string, ownHost: string): boolean {
  return cookie
    .split(';')
    .slice(1)
    .some((attribute) => {
      const [name = '', value = ''] = attribute.split('=', 2).map((text) => text.trim().toLowerCase());
      const domain = value.replace(/^\./, '');
      return name === 'domain' && domain !== '' && domain !== ownHost;
    });
}

/**
 * Splits the headers of a component's response.
 * @param ownHost the host, in lower case and without port, if it belongs to this component only
 * @returns the headers to send, and the names of dropped ones; `set-cookie` also if only some cookies were dropped. Names
 *   are in lower case; of a name in two spellings the last value is sent, and all cookies.
 */
export function allowedHeaders(
  headers: ResponseHeaders,
  ownHost: string | undefined,
): { sent: ResponseHeaders; dropped: string[] } {
  const refused = ownHost === undefined ? NOT_SHARED : NEVER;
  // No prototype: a header may be named `__proto__`.
  const sent: ResponseHeaders = Object.create(null);
  const dropped = new Set<string>();
  for (const [given, value] of Object.entries(headers)) {
    const name = given.toLowerCase();
    if (refused.has(name) || name.startsWith(NGINX_PREFIX)) dropped.add(name);
    // Without an own host, `set-cookie` was refused above: the second condition is for the type.
    else if (name !== 'set-cookie' || ownHost === undefined) sent[name] = value;
    else {
      const cookies = [value].flat();
      const own = cookies.filter((cookie) => !isForeignCookie(cookie, ownHost));
      if (own.length < cookies.length) dropped.add(name);
      if (own.length > 0) sent[name] = [sent[name] ?? [], own].flat();
    }
  }
  return { sent, dropped: [...dropped].sort() };
}
