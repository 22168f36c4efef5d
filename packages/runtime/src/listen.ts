import { createServer, type RequestListener, type Server } from 'node:http';
import { type Socket, Server as SocketServer } from 'node:net';
import { onceClosed } from '@wellspring/http/once-closed';
import { normalizeTarget } from './request-target.ts';

/** Longer than the idle timeouts of common load balancers, so that they close first. */
const KEEP_ALIVE_MS = 72_000;
const CLOSE_IDLE_INTERVAL_MS = 50;
const REQUEST_MS = 60_000;
const STALLED_MS = 30_000;
/** A minute, and a second for each 4 KB. */
const takingMsOf = (bytes: number) => 60_000 + bytes / 4;
/** Pipelined requests of a connection that wait for the one before: each holds its headers. */
const MAX_WAITING = 16;

export interface Listening {
  /** The port in use. */
  port: number;
  /** Accepts no new connections; resolves when the requests in progress are answered. */
  drain(): Promise<void>;
  /** Closes the remaining connections. */
  destroy(): void;
}

export interface ListenOptions {
  host: string;
  port: number;
  /** Name of the listener in errors. */
  what: string;
  /**
   * Time for which idle connections stay open while draining, so that clients close them first; default 0. Closing a
   * connection immediately may lose a request that was just sent.
   */
  lingerMs?: number;
  /** Time in which a client must have sent a request with its body; default 60 s. The answer may take longer. */
  requestMs?: number;
  /** A connection whose client takes nothing of an answer for this long is closed; default 30 s. */
  stalledMs?: number;
  /**
   * Time in which a client must have taken the bytes that wait when an answer is complete; otherwise its connection is
   * closed. Answers that go on, like event streams, have no limit. Default: a minute, and a second for each 4 KB.
   */
  takingMs?: (bytes: number) => number;
}

/** @throws Error that says why it cannot listen */
export async function listen(
  {
    host,
    port,
    what,
    lingerMs = 0,
    requestMs = REQUEST_MS,
    stalledMs = STALLED_MS,
    takingMs = takingMsOf,
  }: ListenOptions,
  listener: RequestListener,
): Promise<Listening> {
  let draining = false;
  const timeouts = {
    keepAliveTimeout: KEEP_ALIVE_MS,
    requestTimeout: requestMs,
    headersTimeout: requestMs,
    connectionsCheckingInterval: requestMs / 12,
  };
  const waiting = new WeakMap<Socket, number>();
  const server = createServer(timeouts, (req, res) => {
    const serve = () => {
      // Tells keep-alive clients to reconnect to another process.
      if (draining) res.setHeader('connection', 'close');
      // Without bytes to send, the answer is not there yet, or is an idle stream.
      res.setTimeout(stalledMs, () => {
        if (req.socket.writableLength > 0) req.socket.destroy();
      });
      // A client that takes a byte now and then is never stalled, and would hold the answer for days.
      res.once('prefinish', () => {
        const late = setTimeout(() => req.socket.destroy(), takingMs(req.socket.writableLength)).unref();
        onceClosed(res, () => clearTimeout(late));
      });
      if (normalizeTarget(req)) listener(req, res);
      else res.writeHead(400, { connection: 'close', 'content-length': 0 }).end();
    };
    // Pipelined requests are served one after another: the answers of later ones would wait in memory.
    if (res.socket) return serve();
    const count = (waiting.get(req.socket) ?? 0) + 1;
    if (count > MAX_WAITING) return void req.socket.destroy();
    waiting.set(req.socket, count);
    res.once('socket', () => {
      waiting.set(req.socket, waiting.get(req.socket)! - 1);
      serve();
    });
  });
  await started(server, host, port, what);
  const address = server.address();
  return {
    port: typeof address === 'object' && address ? address.port : port,
    drain() {
      draining = true;
      return new Promise((resolve) => {
        const lingersUntil = performance.now() + lingerMs;
        // Connections with a response in progress become idle later.
        const idle = setInterval(() => {
          if (performance.now() >= lingersUntil) server.closeIdleConnections();
        }, CLOSE_IDLE_INTERVAL_MS);
        // `close` of the HTTP server would end idle connections immediately.
        SocketServer.prototype.close.call(server, () => {
          clearInterval(idle);
          resolve();
        });
      });
    },
    destroy() {
      server.close();
      server.closeAllConnections();
    },
  };
}

function started(server: Server, host: string, port: number, what: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', ({ code, message }: NodeJS.ErrnoException) => {
      const why =
        code === 'EADDRINUSE'
          ? 'the port is in use'
          : code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND'
            ? 'this machine has no such address'
            : code === 'EACCES'
              ? 'the port is not for this user'
              : message;
      reject(new Error(`The ${what} cannot listen on ${host}:${port}: ${why}.`));
    });
    server.listen({ host, port }, resolve);
  });
}
