import { type Backoff, backoff } from '@wellspring/core/backoff';
import type { Log } from '@wellspring/core/log';
import { withTimeout } from '@wellspring/core/with-timeout';
import { Redis as Connection, type RedisOptions } from 'ioredis';

export type { Connection };

const COMMAND_TIMEOUT_MS = 2_000;
/** Without an answer for this long, the connection counts as lost. */
const SILENCE_TIMEOUT_MS = 3_000;
const RECONNECT_BACKOFF: Backoff = { baseMs: 100, maxMs: 1_000, jitterMs: 25 };

const OPTIONS: RedisOptions = {
  lazyConnect: true,
  enableOfflineQueue: false,
  // Commands in flight fail with their connection.
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  // Failures of ioredis's own resubscription cannot be caught.
  autoResubscribe: false,
  connectTimeout: COMMAND_TIMEOUT_MS,
  socketTimeout: SILENCE_TIMEOUT_MS,
  keepAlive: 10_000,
  // Destroys the socket this long after QUIT.
  disconnectTimeout: 100,
  retryStrategy: (attempt) => backoff(attempt, RECONNECT_BACKOFF),
};

/** Retrying does not help. */
const REFUSED = /WRONGPASS|NOAUTH|NOPERM|invalid password|DB index is out of range/i;

/** Creates a connection without opening it. Logs each outage once, and its end. */
export function createConnection(
  url: string,
  of: string,
  log: Log,
  { prefix, commandTimeoutMs = COMMAND_TIMEOUT_MS }: { prefix?: string; commandTimeoutMs?: number },
): Connection {
  const own = { commandTimeout: commandTimeoutMs, ...(prefix && { keyPrefix: prefix }) };
  const connection = new Connection(url, { ...OPTIONS, ...own });
  const { host, port } = connection.options;
  const fields = { server: 'redis', address: `${host}:${port}`, of };
  let since: number | undefined;
  const lost = (error?: Error) => {
    if (since !== undefined) return;
    since = performance.now();
    log.warn({ ...fields, error: error?.message || 'The connection was closed.' }, 'redis.down');
  };
  connection.on('error', lost);
  connection.on('reconnecting', () => lost());
  connection.on('ready', () => {
    if (since === undefined) return;
    log.info({ ...fields, down_ms: Math.round(performance.now() - since) }, 'redis.up');
    since = undefined;
  });
  return connection;
}

/**
 * Resolves when the connection is ready for the first time.
 * @throws Error when the server refuses the credentials or the database, or the signal is aborted; closes it first
 */
export async function connect(connection: Connection, signal?: AbortSignal): Promise<Connection> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const aborted = () => reject(signal?.reason);
  const failed = ({ message }: Error) => {
    if (REFUSED.test(message))
      reject(
        new Error(
          `Redis refuses the connection: ${message}. Check the credentials and the database in the URL.`,
        ),
      );
  };
  const ended = () => reject(new Error('The connection to Redis was closed.'));
  connection.once('ready', resolve).once('end', ended).on('error', failed);
  signal?.addEventListener('abort', aborted);
  if (signal?.aborted) aborted();
  try {
    // A failed first attempt is retried; final failures arrive as events.
    connection.connect().catch(() => {});
    await promise;
    return connection;
  } catch (error) {
    await disconnect(connection);
    throw error;
  } finally {
    connection.off('ready', resolve).off('end', ended).off('error', failed);
    signal?.removeEventListener('abort', aborted);
  }
}

/** Closes a connection in any state. Waits at most 2 seconds for commands in flight. */
export async function disconnect(connection: Connection): Promise<void> {
  if (connection.status === 'ready') await connection.quit().catch(() => {});
  if (connection.status === 'end') return;
  // Between two attempts ioredis emits no `end`.
  const idle = connection.status === 'reconnecting' || connection.status === 'wait';
  const ended = new Promise<void>((resolve) => connection.once('end', resolve));
  connection.disconnect();
  if (!idle) await withTimeout(ended, COMMAND_TIMEOUT_MS);
}
