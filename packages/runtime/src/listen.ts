import { createServer, type RequestListener, type Server } from 'node:http';

/** Longer than the idle times of usual load balancers, so that they close first. */
const KEEP_ALIVE_MS = 72_000;
const CLOSE_IDLE_MS = 50;

export interface Listening {
  /** The port that is listened on. */
  port: number;
  /** Takes no new connections; resolves when the requests under way are answered. */
  drain(): Promise<void>;
  /** Breaks off what is left. */
  destroy(): void;
}

/** Listens. @throws Error that says why it cannot */
export async function listen(
  { host, port, what }: { host: string; port: number; what: string },
  listener: RequestListener,
): Promise<Listening> {
  let draining = false;
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (req, res) => {
    // Whoever keeps the connection alive is told to open another one, elsewhere.
    if (draining) res.setHeader('connection', 'close');
    listener(req, res);
  });
  await started(server, host, port, what);
  const address = server.address();
  return {
    port: typeof address === 'object' && address ? address.port : port,
    drain() {
      draining = true;
      return new Promise((resolve) => {
        // Connections whose answer had begun before become idle later.
        const idle = setInterval(() => server.closeIdleConnections(), CLOSE_IDLE_MS);
        server.close(() => {
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
