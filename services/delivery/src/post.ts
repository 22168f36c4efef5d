import type { Egress } from '@wellspring/http/egress';
import type { Reply } from './outcome.ts';

/** Sends one request. Never rejects: an error is part of the reply. */
export type Post = (url: string, headers: Record<string, string>, body: string) => Promise<Reply>;

/** A longer response body is not read to its end, which closes the connection. */
const MAX_READ_BYTES = 64 * 1024;

/** POSTs follow no redirect and end within `timeoutMs`. */
export function createPost(agent: Egress['agent'], timeoutMs: number): Post {
  return async (url, headers, body) => {
    const startedAt = performance.now();
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), timeoutMs);
    try {
      const { origin, pathname, search, username, password } = new URL(url);
      const answer = await agent.request({
        origin,
        path: pathname + search,
        method: 'POST',
        headers: username || password ? { ...headers, authorization: basic(username, password) } : headers,
        body,
        signal: timeout.signal,
      });
      const retryAfter = answer.headers['retry-after'];
      // The status decides, even if the body breaks off or is slow.
      await answer.body.dump({ limit: MAX_READ_BYTES, signal: timeout.signal }).catch(() => {});
      return {
        status: answer.statusCode,
        error: null,
        retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter,
        durationMs: performance.now() - startedAt,
      };
    } catch (error) {
      return {
        status: null,
        error: timeout.signal.aborted ? `no answer within ${timeoutMs / 1000} s` : reasonOf(error),
        durationMs: performance.now() - startedAt,
      };
    } finally {
      clearTimeout(timer);
    }
  };
}

const basic = (username: string, password: string) =>
  `Basic ${Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')}`;

/** Error text for the owner of the webhook: code and message, without internal addresses. */
function reasonOf(error: unknown): string {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  const text = typeof code === 'string' ? `${code}: ${String(message)}` : String(message ?? error);
  return text.slice(0, 300);
}
