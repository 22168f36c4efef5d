import type { HttpRequestRecord } from '@wellspring/contract/messages';
import { isTooDeep } from '@wellspring/core/json-depth';
import { withoutByteOrderMark } from '@wellspring/core/utf8';
import { hookEvent } from './hook-event.ts';

/** The event that an HTTP interface passes to `run`. */
export interface HttpEvent {
  method: string;
  path: string;
  query: Record<string, string | string[]>;
  headers: Record<string, string>;
  /** The raw body: text, or bytes if it is not valid UTF-8; '' without a body, or with files beyond its limit. */
  bodyRaw: string | Buffer;
  /** The body parsed by its content type, or its text if that fails; undefined without a body. */
  body?: unknown;
  url: string;
  client_ip: string;
}

/** The run event of a call: the request, or for an app hook the event in its body. */
export function callEvent(request: HttpRequestRecord): unknown {
  const event = httpEvent(request);
  return request.body_only ? hookEvent(event.body) : event;
}

export function httpEvent(request: HttpRequestRecord): HttpEvent {
  const { method, path, query, headers, url, client_ip, text, base64, multipart } = request;
  const bodyRaw = base64 === undefined ? (text ?? '') : Buffer.from(base64, 'base64');
  const event: HttpEvent = {
    method,
    path,
    query: pairs(new URLSearchParams(query)),
    headers,
    bodyRaw,
    url,
    client_ip,
  };
  if (multipart !== undefined) event.body = multipart;
  else if (bodyRaw.length > 0) event.body = parseBody(bodyRaw, headers['content-type'] ?? '');
  return event;
}

function parseBody(body: string | Buffer, contentType: string): unknown {
  if (typeof body !== 'string') return body;
  const type = contentType.split(';', 1)[0]!.trim().toLowerCase();
  if (type === 'application/json' || type.endsWith('+json')) {
    // Callers must not create values that JSON.stringify cannot serialize.
    if (isTooDeep(body)) return body;
    try {
      return JSON.parse(withoutByteOrderMark(body));
    } catch {
      return body;
    }
  }
  if (type === 'application/x-www-form-urlencoded') return pairs(new URLSearchParams(body));
  return body;
}

/** Names with their value, or with an array of several values. In one pass: a caller may send thousands of names. */
function pairs(params: URLSearchParams): Record<string, string | string[]> {
  const found = new Map<string, string | string[]>();
  for (const [name, value] of params) {
    const before = found.get(name);
    if (before === undefined) found.set(name, value);
    else if (typeof before === 'string') found.set(name, [before, value]);
    else before.push(value);
  }
  // The caller chooses the names: `fromEntries` makes `__proto__` an ordinary one.
  return Object.fromEntries(found);
}
