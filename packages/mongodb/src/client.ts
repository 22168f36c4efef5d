import { setTimeout as pause } from 'node:timers/promises';
import type { Log } from '@wellspring/core/log';
import { type Metrics, noMetrics } from '@wellspring/core/metrics';
import { BSON, type Db, type Document, MongoClient, type MongoClientOptions } from 'mongodb';
import { answered } from './errors.ts';

export { Binary, type Collection, type Db, type Document, GridFSBucket } from 'mongodb';

/** Bytes of a document as it is sent and stored. */
export const sizeOf = (document: Document): number => BSON.calculateObjectSize(document);

/**
 * A connection to MongoDB, or to what speaks its protocol. The package is the one door to the driver.
 *
 * A write is answered when a majority has journaled it; what is read is what a majority has, read from the primary.
 * The connection comes back by itself and for ever, within about a second of the server's return. While the server
 * does not answer, operations fail after at most LONGEST_MS. One that was sent may have been done all the same; the
 * driver sends it again only where the server can tell that it has seen it before.
 */
export interface Mongo {
  readonly db: Db;
  /** Whether there is a server that would be asked now. */
  readonly isUp: boolean;
  /** @throws Unavailable when the server does not answer */
  ping(): Promise<void>;
  close(): Promise<void>;
}

export interface MongoTarget {
  /** `mongodb://user:password@host:port/database?options`. Without a name the database is `wellspring`. */
  url: string;
  /** Instead of the database in the URL. */
  database?: string;
  log: Log;
  /** Counts what is sent as `wellspring_store_statements_total`. */
  metrics?: Metrics;
  /** Ends the wait for a server that is not there. */
  signal?: AbortSignal;
}

const SELECTION_MS = 3_000;
const CONNECT_MS = 2_000;
/** How often an idle process looks after the server, and so how soon it notices one that hangs. */
const LOOK_MS = 2_000;
const MAJORITY_MS = 8_000;
const ANSWER_MS = 10_000;
/** The longest that an operation takes: to find a server, to wait for its answer, and once more where that is safe. */
export const LONGEST_MS = 2 * (SELECTION_MS + ANSWER_MS);
const LONGEST_WAIT_MS = 1_000;

const OPTIONS: MongoClientOptions = {
  appName: 'wellspring',
  writeConcern: { w: 'majority', journal: true, wtimeoutMS: MAJORITY_MS },
  readConcern: { level: 'majority' },
  readPreference: 'primary',
  serverSelectionTimeoutMS: SELECTION_MS,
  connectTimeoutMS: CONNECT_MS,
  heartbeatFrequencyMS: LOOK_MS,
  socketTimeoutMS: ANSWER_MS,
  waitQueueTimeoutMS: SELECTION_MS,
  maxPoolSize: 64,
  ignoreUndefined: true,
  monitorCommands: true,
};

/** What no waiting will mend: credentials and permissions, and a server that knows no such command when asked for them. */
const REFUSED = new Set([11, 13, 18, 59, 334, 8000]);
/** Commands that are the driver's own. */
const UNCOUNTED = new Set(['hello', 'ismaster', 'isMaster', 'ping', 'endSessions', 'buildInfo']);

/**
 * Connects; a server that is not there is waited for.
 * @throws Error when the URL is none, the server is too old or refuses the credentials, or the signal is aborted
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
  client.on('topologyDescriptionChanged', ({ newDescription }) => {
    const servers = [...newDescription.servers.values()];
    isUp = servers.some(({ isWritable }) => isWritable);
    const error = servers.find((one) => one.error)?.error;
    if (isUp && downSince !== undefined) {
      log.info({ ...fields, down_ms: Math.round(performance.now() - downSince) }, 'mongodb.up');
      downSince = undefined;
    } else if (!isUp && error && downSince === undefined) {
      log.warn({ ...fields, error: error.message }, 'mongodb.down');
      downSince = performance.now();
    }
  });
  client.on('serverHeartbeatFailed', ({ failure }) => {
    if (failure.name !== 'MongoCompatibilityError') return;
    tooOld ??= new Error(`MongoDB cannot be used: ${failure.message}`);
  });
  const statements = metrics.counter(
    'wellspring_store_statements_total',
    'Statements sent to the database.',
    ['command', 'collection'],
  );
  client.on('commandStarted', ({ commandName, command }) => {
    if (UNCOUNTED.has(commandName)) return;
    const collection = commandName === 'getMore' ? command.collection : command[commandName];
    statements.inc({ command: commandName, collection: String(collection) });
  });

  const ping = async () => {
    await answered(db.command({ ping: 1 }));
  };
  try {
    const connect = async () => {
      // What failed to connect once stays closed for operations: each attempt has to say that it is another one.
      await client.connect();
      await ping();
    };
    await firstAnswer(connect, () => tooOld, signal);
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
    throw new Error(`The URL of MongoDB cannot be used: ${(error as Error).message}`);
  }
}

/** @throws Error that waiting does not mend */
async function firstAnswer(
  connect: () => Promise<void>,
  tooOld: () => Error | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  for (let wait = 50; ; wait = Math.min(LONGEST_WAIT_MS, wait * 2)) {
    signal?.throwIfAborted();
    try {
      return await connect();
    } catch (error) {
      const { message, code } = error as { message: string; code?: number };
      if (REFUSED.has(code!)) throw new Error(`MongoDB refuses the connection: ${message}`);
      const unusable = tooOld();
      if (unusable) throw unusable;
    }
    await pause(wait, undefined, { signal }).catch(() => signal?.throwIfAborted());
  }
}
