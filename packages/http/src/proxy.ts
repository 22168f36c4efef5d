import { Agent, type IncomingMessage, type RequestListener, request, type ServerResponse } from 'node:http';
import { LIMITS } from '@wellspring/contract/limits';
import { createHold, type Hold, UNLIMITED } from '@wellspring/core/byte-budget';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Memory } from '@wellspring/core/memory';
import { Unavailable } from '@wellspring/core/unavailable';
import { onceClosed } from './once-closed.ts';
import { PRINCIPAL_HEADER, verifyPrincipal } from './principal.ts';
import { sendProblem } from './problem-response.ts';
import { readBody } from './read-body.ts';

/** Shorter than a draining service keeps idle connections, so none is closed during a request. */
const IDLE_TIMEOUT_MS = 1_000;
const CONNECT_TIMEOUT_MS = 2_000;
/** Wait for a service that is being replaced; afterwards the response is 503. */
const MAX_WAIT_MS = 5_000;
const RETRY_DELAY_MS = 100;
/** Wait for the head of the answer to a GET: a service that is frozen accepts connections. */
const MAX_HEAD_MS = 30_000;
/** Longer than any call takes: a service that was frozen must not hold it for ever. */
const MAX_ANSWER_MS = 690_000;

/** Hop-by-hop headers, which are not forwarded. */
const HOP_BY_HOP = new Set([
  'connection',
  'expect',
  'host',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** No server has received the request: it may be sent to another one. */
const NOT_SENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'CONNECT_TIMEOUT',
]);

export interface ServiceProxy {
  /**
   * Forwards requests to the service at these origins, in turns. Unreachable ones are skipped; if none is reachable for
   * 5 s, the response is 503. A request that may have been received is repeated only if it is a GET, also when no answer
   * has begun after 30 s; one that is not a GET goes on when its client disconnects.
   */
  to(origins: readonly string[]): RequestListener;
  close(): void;
}

export interface ProxyOptions {
  log: Log;
  clock: Clock;
  /** Aborts event streams, which do not end by themselves. */
  draining: AbortSignal;
  /** Keys of the gateway's signature, newest first. */
  principalKeys: readonly Buffer[];
  memory: Pick<Memory, 'api'>;
  /** Monotonic milliseconds. */
  now?: () => number;
}

export function createProxy({
  log,
  clock,
  draining,
  principalKeys,
  memory,
  now = () => performance.now(),
}: ProxyOptions): ServiceProxy {
  const agent = new Agent({ keepAlive: true, timeout: IDLE_TIMEOUT_MS, maxFreeSockets: 64 });

  /** The head of the response. @throws Error with the `code` of the system */
  function ask(origin: string, req: IncomingMessage, body: Buffer | undefined, signal: AbortSignal) {
    return new Promise<IncomingMessage>((resolve, reject) => {
      // That of the client may state a body that is not sent, which the next request on the connection would become.
      const { 'content-length': _, ...given } = endToEnd(req.headers);
      const headers = { ...given, ...(body && { 'content-length': String(body.length) }) };
      const { method = 'GET', url: path = '/' } = req;
      // The path as the gateway checked it: the URL parser would resolve `..` and turn `\\` into `/`.
      const asked = request(new URL(origin), { agent, method, path, headers, signal });
      asked.once('socket', (socket) => {
        if (!socket.connecting) return;
        const late = setTimeout(() => asked.destroy(coded('CONNECT_TIMEOUT')), CONNECT_TIMEOUT_MS);
        const settled = () => clearTimeout(late);
        socket.once('connect', settled).once('close', settled);
      });
      const begun = new AbortController();
      if (body === undefined) {
        void clock.sleep(MAX_HEAD_MS, begun.signal).then(() => {
          if (!begun.signal.aborted) asked.destroy(coded('ANSWER_TIMEOUT'));
        });
      }
      for (const event of ['response', 'close']) asked.once(event, () => begun.abort());
      asked.once('response', resolve).on('error', reject);
      asked.end(body);
    });
  }

  async function forward(
    origins: readonly string[],
    first: number,
    req: IncomingMessage,
    res: ServerResponse,
  ) {
    const isRead = req.method === 'GET' || req.method === 'HEAD';
    const body = isRead ? undefined : await readBody(req, LIMITS.apiBody);
    const principal = isRead ? undefined : verifyPrincipal(req.headers[PRINCIPAL_HEADER], principalKeys);
    const hold = principal?.kind === 'user' ? createHold(memory.api, principal.user_id) : UNLIMITED;
    const clientGone = new AbortController();
    if (isRead) onceClosed(res, () => clientGone.abort());
    const signal = isRead ? clientGone.signal : AbortSignal.timeout(MAX_ANSWER_MS);
    const giveUpAt = now() + MAX_WAIT_MS;
    for (let attempt = 0; ; attempt++) {
      const origin = origins[(first + attempt) % origins.length]!;
      try {
        const response = await ask(origin, req, body, signal);
        if (isRead) stream(response, res);
        else await answer(response, res, hold);
        return;
      } catch (error) {
        if (clientGone.signal.aborted) return;
        const { code = '', message } = error as NodeJS.ErrnoException;
        const isLast = now() >= giveUpAt && attempt + 1 >= origins.length;
        if ((!isRead && !NOT_SENT.has(code)) || isLast) {
          throw new Unavailable(`${origin} does not answer: ${code || message}`, { cause: error });
        }
      }
      // All were tried: one that is being replaced needs some time.
      if ((attempt + 1) % origins.length === 0) await clock.sleep(RETRY_DELAY_MS, signal);
    }
  }

  /** Sends an answer that is complete: one that breaks off is a 503, and ends the call for its repetitions. */
  async function answer(from: IncomingMessage, res: ServerResponse, hold: Hold): Promise<void> {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of from as AsyncIterable<Buffer>) {
        hold.count(chunk.length);
        chunks.push(chunk);
      }
      res.writeHead(from.statusCode!, endToEnd(from.headers));
      res.end(Buffer.concat(chunks));
    } finally {
      onceClosed(res, hold.release);
    }
  }

  function stream(from: IncomingMessage, res: ServerResponse): void {
    res.writeHead(from.statusCode!, endToEnd(from.headers));
    res.flushHeaders();
    from.pipe(res);
    const end = () => {
      from.unpipe(res).destroy();
      res.end();
    };
    if (from.headers['content-type']?.startsWith('text/event-stream')) {
      if (draining.aborted) end();
      else draining.addEventListener('abort', end, { once: true });
    }
    from.on('error', () => {});
    from.once('close', () => {
      draining.removeEventListener('abort', end);
      // An aborted response is aborted here, too, so that the client notices.
      if (!from.complete && !res.writableEnded) res.destroy();
    });
  }

  return {
    to(origins) {
      let next = 0;
      return (req, res) => {
        const requestId = String(req.headers['x-request-id'] ?? '');
        next = (next + 1) % origins.length;
        forward(origins, next, req, res).catch((error: unknown) =>
          sendProblem(res, error, { requestId, log }),
        );
      };
    },
    close: () => agent.destroy(),
  };
}

const endToEnd = (headers: IncomingMessage['headers']) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.has(name)));

const coded = (code: string) => Object.assign(new Error(code), { code });
