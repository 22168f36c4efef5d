import { setTimeout as pause } from 'node:timers/promises';
import { backoff } from '@wellspring/core/backoff';
import type { Log } from '@wellspring/core/log';
import { type Metrics, noMetrics } from '@wellspring/core/metrics';
import { StartRefused } from '@wellspring/core/start-refused';
import { AccessDenied } from '@wellspring/core/unavailable';
import {
  BSON,
  type Db,
  type Document,
  MongoClient,
  type MongoClientOptions,
  MongoServerSelectionError,
} from 'mongodb';
import { translateErrors } from './errors.ts';

export { Binary, type Collection, type Db, type Document, GridFSBucket } from 'mongodb';

/** Size of a document in BSON, bytes. */
export const sizeOf = (document: Document): number => BSON.calculateObjectSize(document);

/**
 * A connection to MongoDB or a compatible server. This package is the sole importer of the driver.
 *
 * Writes are acknowledged after a majority has journaled them; reads go to the primary with majority read concern. The
 * connection recovers within about a second of the server's return. Without an answer operations fail within
 * about MAX_OPERATION_MS, but may have been executed; the driver retries those that the server recognises as repeated.
 */
export interface Mongo {
  readonly db: Db;
  /** A primary is known. */
  readonly isUp: boolean;
  /** @throws Unavailable when the server does not answer */
  ping(): Promise<void>;
  close(): Promise<void>;
}

export interface MongoTarget {
  /** `mongodb://user:password@host:port/database?options`. Without a name, and for `test`, the database is `wellspring`. */
  url: string;
  /** Overrides the database of the URL. */
  database?: string;
  log: Log;
  /** For `wellspring_store_statements_total`. */
  metrics?: Metrics;
  /** Aborts waiting for the server. */
  signal?: AbortSignal;
}

const SELECTION_TIMEOUT_MS = 3_000;
const CONNECT_TIMEOUT_MS = 2_000;
/** Also the time to notice a server that hangs. */
const HEARTBEAT_INTERVAL_MS = 2_000;
const MAJORITY_TIMEOUT_MS = 8_000;
const SOCKET_TIMEOUT_MS = 10_000;
/** Longest duration of an operation without an answer: server selection and socket timeout, with one retry. */
export const MAX_OPERATION_MS = 2 * (SELECTION_TIMEOUT_MS + SOCKET_TIMEOUT_MS);
const RETRY = { baseMs: 50, maxMs: 1_000 };

const OPTIONS: MongoClientOptions = {
  appName: 'wellspring',
  writeConcern: { w: 'majority', journal: true, wtimeoutMS: MAJORITY_TIMEOUT_MS },
  readConcern: { level: 'majority' },
  readPreference: 'primary',
  serverSelectionTimeoutMS: SELECTION_TIMEOUT_MS,
  connectTimeoutMS: CONNECT_TIMEOUT_MS,
  heartbeatFrequencyMS: HEARTBEAT_INTERVAL_MS,
  // Streaming sends each heartbeat twice, on two connections; operations notice a new primary by themselves.
  serverMonitoringMode: 'poll',
  socketTimeoutMS: SOCKET_TIMEOUT_MS,
  waitQueueTimeoutMS: SELECTION_TIMEOUT_MS,
  maxPoolSize: 64,
  ignoreUndefined: true,
  monitorCommands: true,
};

/** Error codes of failed authentication and authorization: retrying is useless. */
const REFUSED = new Set([11, 13, 18, 59, 334, 8000]);
/** Commands sent by the driver itself. */
const UNCOUNTED = new Set(['hello', 'ismaster', 'isMaster', 'ping', 'endSessions', 'buildInfo']);

/**
 * Connects; retries while the server is unavailable.
 * @throws Error for a malformed URL, a server that is too old or refuses the credentials, or an aborted signal
 */
export async function openMongo(target: MongoTarget): Promise<Mongo> {
  const { url, log, metrics = noMetrics, signal } = target;
  const client = clientOf(url);
  const { hosts, srvHost, dbName } = client.options;
  const db = client.db(target.database ?? (dbName === 'test' ? 'wellspring' : dbName));
  const fields = { server: 'mongodb', address: srvHost ?? hosts.join() };

  let isUp = false;
  let downSince: number | undefined;
  let tooOld: Error | undefined;
  const down = (error: string) => {
    if (downSince !== undefined) return;
    log.warn({ ...fields, error }, 'mongodb.down');
    downSince = performance.now();
  };
  client.on('topologyDescriptionChanged', ({ newDescription }) => {
    const servers = [...newDescription.servers.values()];
    isUp = servers.some(({ isWritable }) => isWritable);
    const error = servers.find((one) => one.error)?.error;
    if (isUp && downSince !== undefined) {
      log.info({ ...fields, down_ms: Math.round(performance.now() - downSince) }, 'mongodb.up');
      downSince = undefined;
    } else if (!isUp && error) {
      down(error.message);
    }
  });
  client.on('serverHeartbeatFailed', ({ failure }) => {
    if (failure.name !== 'MongoCompatibilityError') return;
    tooOld ??= new Error(`Unsupported MongoDB server: ${failure.message}`);
  });
  const statements = metrics.counter('wellspring_store_statements_total', 'Statements sent to the database', [
    'command',
    'collection',
  ]);
  client.on('commandStarted', ({ commandName, command }) => {
    if (UNCOUNTED.has(commandName)) return;
    const collection = commandName === 'getMore' ? command.collection : command[commandName];
    statements.inc({ command: commandName, collection: String(collection) });
  });

  const ping = async () => {
    await translateErrors(db.command({ ping: 1 }));
  };
  try {
    const connect = async () => {
      // After a failed connect the client stays closed, so every attempt connects explicitly.
      await client.connect();
      await ping();
    };
    await firstAnswer(connect, { tooOld: () => tooOld, failed: down, signal });
  } catch (error) {
    await client.close();
    throw error;
  }
  return {
    db,
    get isUp() {
      return isUp;
    },
    ping,
    close: () => client.close(),
  };
}

function clientOf(url: string): MongoClient {
  try {
    return new MongoClient(url, OPTIONS);
  } catch (error) {
    throw new StartRefused(`Invalid MongoDB URL: ${(error as Error).message}`);
  }
}

/** @throws Error if retrying is useless */
async function firstAnswer(
  connect: () => Promise<void>,
  {
    tooOld,
    failed,
    signal,
  }: {
    tooOld(): Error | undefined;
    /** Also for failures without an event of a server: a name without SRV records, no member of the named set. */
    failed(reason: string): void;
    signal: AbortSignal | undefined;
  },
): Promise<void> {
  for (let failures = 1; ; failures++) {
    signal?.throwIfAborted();
    try {
      return await connect();
    } catch (error) {
      const { message, code } = error as { message: string; code?: number };
      if (REFUSED.has(code!) || error instanceof AccessDenied)
        throw new Error(`MongoDB refuses the connection: ${message}`);
      const unusable = tooOld();
      if (unusable) throw unusable;
      // The driver says nothing about the cause: no server failed, and none is the primary of this replica set.
      failed(
        error instanceof MongoServerSelectionError
          ? `${message}; check the hosts and replicaSet in the URL.`
          : message,
      );
    }
    await pause(backoff(failures, RETRY), undefined, { signal }).catch(() => signal?.throwIfAborted());
  }
}
