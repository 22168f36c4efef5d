import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { systemClock } from '@wellspring/core/clock';
import { startHttpServer } from './http.ts';

export interface Received {
  method: string;
  /** Path and query. */
  path: string;
  headers: IncomingHttpHeaders;
  /** The body, byte for byte. */
  body: Buffer;
  /** The body as text. */
  text: string;
  /** Epoch ms of its arrival. */
  at: number;
}

/** How a request is answered; `drop` cuts the connection without an answer. Default: 200 without a body. */
export type Answer = { status?: number; headers?: Record<string, string>; body?: string } | 'drop';
export type Answering = Answer | ((request: Received) => Answer | Promise<Answer>);

export interface WebhookSink {
  /** `http://127.0.0.1:<port>`, without trailing slash. */
  url: string;
  /** Complete requests in order of arrival. */
  readonly requests: readonly Received[];
  /** Responses to the next requests, one each; then the default response applies. */
  script(...answers: Answering[]): void;
  /** Sets the default response. A function may wait before it returns. */
  answer(answering: Answering): void;
  /** Resolves with the requests once at least `count` have arrived. @throws after `ms` milliseconds, default 10 s */
  received(count: number, ms?: number): Promise<readonly Received[]>;
  /** The first matching request, past or future. @throws Error after `ms`, default 10 s */
  request(matches: (request: Received) => boolean, ms?: number): Promise<Received>;
  /** Clears `requests`. */
  clear(): void;
  /** Cuts every connection. */
  close(): Promise<void>;
}

/** A real HTTP server that records requests. @param port 0: a free one */
export async function createWebhookSink({ port = 0 }: { port?: number } = {}): Promise<WebhookSink> {
  const requests: Received[] = [];
  const scripted: Answering[] = [];
  const watchers = new Set<() => void>();
  let standing: Answering = {};

  async function reply(request: Received, res: ServerResponse) {
    const answering = scripted.shift() ?? standing;
    const answer = typeof answering === 'function' ? await answering(request) : answering;
    if (answer === 'drop') res.destroy();
    else res.writeHead(answer.status ?? 200, answer.headers).end(answer.body);
  }

  const { url, close } = await startHttpServer(async (req, res) => {
    try {
      const body = await buffer(req);
      const { method = '', url: path = '', headers } = req;
      const request = { method, path, headers, body, text: body.toString('utf8'), at: systemClock.now() };
      requests.push(request);
      for (const watch of [...watchers]) watch();
      await reply(request, res);
    } catch {
      // The caller disconnected, or the test's answer failed: the caller sees a cut connection.
      res.destroy();
    }
  }, port);

  const wait = <T>(look: () => T | undefined, ms: number, what: () => string) =>
    new Promise<T>((resolve, reject) => {
      const end = (settle: () => void) => {
        clearTimeout(timer);
        watchers.delete(watch);
        settle();
      };
      const watch = () => {
        const found = look();
        if (found !== undefined) end(() => resolve(found));
      };
      const timer = setTimeout(() => end(() => reject(new Error(`${what()} within ${ms} ms`))), ms);
      watchers.add(watch);
      watch();
    });

  return {
    url,
    requests,
    script: (...answers) => void scripted.push(...answers),
    answer: (answering) => {
      standing = answering;
    },
    received: (count, ms = 10_000) =>
      wait(
        () => (requests.length >= count ? requests : undefined),
        ms,
        () => `${requests.length} of ${count} requests arrived`,
      ),
    request: (matches, ms = 10_000) =>
      wait(
        () => requests.find(matches),
        ms,
        () => `none of ${requests.length} requests matched`,
      ),
    clear: () => {
      requests.length = 0;
    },
    close,
  };
}
