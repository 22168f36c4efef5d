import type { Reply } from './outcome.ts';

/** Sends one request; gives what came back, or why nothing did. Never rejects. */
export type Post = (url: string, headers: Record<string, string>, body: string) => Promise<Reply>;

/** The part of an undici Agent that is used here; http/egress makes one that refuses private addresses. */
export interface HttpAgent {
  request(options: {
    origin: string;
    path: string;
    method: 'POST';
    headers: Record<string, string>;
    body: string;
    signal: AbortSignal;
  }): Promise<{
    statusCode: number;
    headers: Record<string, string | string[] | undefined>;
    body: { dump(options: { limit: number; signal: AbortSignal }): Promise<unknown> };
  }>;
}

/** Of an answer, so much is read (and thrown away) to keep the connection; a longer one costs the connection. */
const READ_BYTES = 64 * 1024;

/** POSTs that follow no redirect and are over after `timeoutMs`, whatever the other side does. */
export function createPost(agent: HttpAgent, timeoutMs: number): Post {
  return async (url, headers, body) => {
    const begun = performance.now();
    const overdue = new AbortController();
    const timer = setTimeout(() => overdue.abort(), timeoutMs);
    try {
      const { origin, pathname, search, username, password } = new URL(url);
      const answer = await agent.request({
        origin,
        path: pathname + search,
        method: 'POST',
        headers: username || password ? { ...headers, authorization: basic(username, password) } : headers,
        body,
        signal: overdue.signal,
      });
      const retryAfter = answer.headers['retry-after'];
      // The status decides; a body that breaks off or drips changes nothing any more.
      await answer.body.dump({ limit: READ_BYTES, signal: overdue.signal }).catch(() => {});
      return {
        status: answer.statusCode,
        error: null,
        retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter,
        durationMs: performance.now() - begun,
      };
    } catch (error) {
      return {
        status: null,
        error: overdue.signal.aborted ? `no answer within ${timeoutMs / 1000} s` : reasonOf(error),
        durationMs: performance.now() - begun,
      };
    } finally {
      clearTimeout(timer);
    }
  };
}

const basic = (username: string, password: string) =>
  `Basic ${Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString('base64')}`;

/** What the owner of the webhook may know: the code or message of the failure, no addresses of ours. */
function reasonOf(error: unknown): string {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  const text = typeof code === 'string' ? `${code}: ${String(message)}` : String(message ?? error);
  return text.slice(0, 300);
}
