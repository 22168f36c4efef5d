import { type Backoff, backoff } from '@wellspring/core/backoff';
import type { Log } from '@wellspring/core/log';
import { withTimeout } from '@wellspring/core/with-timeout';
import { Redis as Connection, type RedisOptions } from 'ioredis';

export type { Connection };

const COMMAND_TIMEOUT_MS = 2_000;
/** A server that owes an answer for longer is gone without having said so. */
const SILENCE_MS = 3_000;
const RECONNECT_BACKOFF: Backoff = { baseMs: 100, maxMs: 1_000, jitterMs: 25 };

const OPTIONS: RedisOptions = {
  lazyConnect: true,
  enableOfflineQueue: false,
  // What was under way when the connection was lost fails with it.
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  // ioredis lets nobody catch the failure of what it subscribes by itself.
  autoResubscribe: false,
  connectTimeout: COMMAND_TIMEOUT_MS,
  commandTimeout: COMMAND_TIMEOUT_MS,
  socketTimeout: SILENCE_MS,
  keepAlive: 10_000,
  // Said goodbye: the connection goes, whether the server has heard it or not.
  disconnectTimeout: 100,
  retryStrategy: (attempt) => backoff(attempt, RECONNECT_BACKOFF),
};

/** What no waiting will mend. */
const REFUSED = /WRONGPASS|NOAUTH|NOPERM|invalid password|DB index is out of range/i;

/** A connection that is not opened yet. It says once that the server was lost, and once that it is back. */
export function createConnection(url: string, of: string, log: Log, prefix?: string): Connection {
  const connection = new Connection(url, { ...OPTIONS, ...(prefix && { keyPrefix: prefix }) });
  const { host, port } = connection.options;
  const fields = { server: 'redis', address: `${host}:${port}`, of };
  let since: number | undefined;
  const lost = (error?: Error) => {
    if (since !== undefined) return;
    since = performance.now();
    log.warn({ ...fields, error: error?.message || 'the connection was closed' }, 'redis.down');
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
 * Connects, and resolves when the server has answered for the first time.
 * @throws Error when the server refuses the credentials or the database, or the signal is aborted; it is closed then
 */
export async function connected(connection: Connection, signal?: AbortSignal): Promise<Connection> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const aborted = () => reject(signal?.reason);
  const failed = ({ message }: Error) => {
    if (REFUSED.test(message)) reject(new Error(`Redis refuses the connection: ${message}`));
  };
  const ended = () => reject(new Error('the connection to Redis was closed'));
  connection.once('ready', resolve).once('end', ended).on('error', failed);
  signal?.addEventListener('abort', aborted);
  if (signal?.aborted) aborted();
  try {
    // The failure of the first attempt is not the end; those that matter are announced by events.
    connection.connect().catch(() => {});
    await promise;
    return connection;
  } catch (error) {
    await end(connection);
    throw error;
  } finally {
    connection.off('ready', resolve).off('end', ended).off('error', failed);
    signal?.removeEventListener('abort', aborted);
  }
}

/** Ends a connection in any state, for good. What was sent is answered first, for at most 2 seconds. */
export async function end(connection: Connection): Promise<void> {
  if (connection.status === 'ready') await connection.quit().catch(() => {});
  if (connection.status === 'end') return;
  // Between two attempts there is nothing whose end would be announced.
  const idle = connection.status === 'reconnecting' || connection.status === 'wait';
  const ended = new Promise<void>((resolve) => connection.once('end', resolve));
  connection.disconnect();
  if (!idle) await withTimeout(ended, COMMAND_TIMEOUT_MS);
}
