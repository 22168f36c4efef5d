import { unescape as decoded } from 'node:querystring';
import { type Egress, MAX_INFORMATIONAL } from '@wellspring/http/egress';
import type { Reply } from './outcome.ts';
import { startTimeLimit } from './time-limit.ts';

export interface Request {
  /** Default POST. */
  method?: string;
  /** Who causes it. */
  owner: string;
  url: string;
  headers: Record<string, string | string[]>;
  body: string | Uint8Array | null;
}

/** Sends one request. Never rejects: an error is part of the reply. @param ended aborts it; its reason is the error */
export type Post = (request: Request, ended?: AbortSignal) => Promise<Reply>;

/** A longer response body is not read to its end, which closes the connection. */
const MAX_READ_BYTES = 64 * 1024;
/** Of a response, in the log of attempts. */
const MAX_LOGGED_BODY_BYTES = 4 * 1024;
const MAX_LOGGED_HEADER_BYTES = 4 * 1024;

/** A request follows no redirect and ends within `timeoutMs`. */
export function createPost({ agent, forOwner }: Pick<Egress, 'agent' | 'forOwner'>, timeoutMs: number): Post {
  return async ({ method = 'POST', owner, url, headers, body }, ended) => {
    const startedAt = performance.now();
    const limit = startTimeLimit(timeoutMs, ended);
    let informational = 0;
    const onInfo = () => {
      informational += 1;
      if (informational > MAX_INFORMATIONAL) limit.abort('too many informational responses');
    };
    try {
      const { origin, pathname, search, username, password } = new URL(url);
      const answer = await forOwner(owner, () =>
        agent.request({
          origin,
          path: pathname + search,
          method,
          headers: username || password ? { ...headers, authorization: basic(username, password) } : headers,
          body,
          signal: limit.signal,
          onInfo,
        }),
      );
      const retryAfter = answer.headers['retry-after'];
      return {
        status: answer.statusCode,
        error: null,
        retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter,
        headers: keptHeaders(answer.headers),
        body: await beginning(answer),
        durationMs: performance.now() - startedAt,
      };
    } catch (error) {
      return {
        status: null,
        error: limit.signal.aborted ? String(limit.signal.reason) : reasonOf(error),
        durationMs: performance.now() - startedAt,
      };
    } finally {
      limit.clear();
    }
  };
}

/** The first bytes of a body as text. The status decides, even if the body breaks off or is slow. */
async function beginning({
  headers,
  body,
}: Awaited<ReturnType<Egress['agent']['request']>>): Promise<string> {
  // Most receivers answer nothing: this costs less than a loop.
  if (headers['content-length'] === '0') {
    await body.dump();
    return '';
  }
  const kept: Buffer[] = [];
  let read = 0;
  try {
    for await (const chunk of body) {
      if (read < MAX_LOGGED_BODY_BYTES) kept.push(chunk.subarray(0, MAX_LOGGED_BODY_BYTES - read));
      read += chunk.length;
      if (read > MAX_READ_BYTES) break;
    }
  } catch {}
  if (kept.length === 0) return '';
  // A character that the limit cuts is left out.
  return new TextDecoder().decode(Buffer.concat(kept), { stream: read > MAX_LOGGED_BODY_BYTES });
}

function keptHeaders(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const kept: Record<string, string> = {};
  let bytes = 0;
  for (const [name, value = ''] of Object.entries(headers)) {
    const text = Array.isArray(value) ? value.join(', ') : value;
    bytes += name.length + text.length;
    if (bytes > MAX_LOGGED_HEADER_BYTES) break;
    kept[name] = text;
  }
  return kept;
}

/** Takes percent-encoded texts, as of a URL: its parser keeps a `%` that begins no escape, and so does this. */
export const basic = (username: string, password: string) =>
  `Basic ${Buffer.from(`${decoded(username)}:${decoded(password)}`).toString('base64')}`;

/** For who starts the process. */
const NODE_ADVICE = /; if the root CA is installed locally, .*/;

/** Error text for the owner of the webhook, such as "connect ECONNREFUSED 127.0.0.1:4000". */
export function reasonOf(error: unknown): string {
  const { errors, message, code, library, reason } = (error ?? {}) as {
    errors?: unknown[];
    message?: unknown;
    code?: unknown;
    /** Of OpenSSL, whose messages have several lines. */
    library?: unknown;
    reason?: unknown;
  };
  // A name with several addresses: one error for each.
  if (Array.isArray(errors) && errors.length > 0) return reasonOf(errors[0]);
  // Of the HTTP client, as for a status 101.
  if (code === 'ERR_ASSERTION') return 'the answer does not fit the request';
  if (library !== undefined) return `${code}: ${reason}`;
  return String(message || error)
    .replace(NODE_ADVICE, '')
    .slice(0, 300);
}
