import { randomUUID } from 'node:crypto';
import { type Clock, systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { type Labels, type Metrics, noMetrics } from '@wellspring/core/metrics';
import { type Mongo, openMongo } from '@wellspring/mongodb/client';
import { closeAfterEach } from '@wellspring/testing/lifetimes';
import { eventRow, logRow } from '@wellspring/testing/rows';
import { events, logs } from '../collections/events.ts';
import { outbox } from '../collections/outbox.ts';
import type { StoreSubject } from '../conformance-subject.ts';
import type { Store } from '../port.ts';
import type { RunCommit } from '../run-commit.ts';
import { createMongoStore } from './store.ts';

export interface MongoProcess {
  store: Store;
  mongo: Mongo;
  /** Statements sent, e.g. `insert events`. */
  sent: string[];
}

export interface MongoSubject extends StoreSubject, MongoProcess {
  /** Another process on the same database. */
  another(options?: ProcessOptions): Promise<MongoProcess>;
}

export interface ProcessOptions {
  clock?: Clock;
  /** Selects statements that fail before they are sent, as if the process had died. */
  fails?: (statement: string) => boolean;
}

/** Records statements and fails the selected ones. */
function watch(fails: (statement: string) => boolean): { metrics: Metrics; sent: string[] } {
  const sent: string[] = [];
  const inc = ({ command, collection }: Labels = {}) => {
    const statement = `${command} ${collection}`;
    if (fails(statement)) throw new Error(`stopped before ${statement}`);
    sent.push(statement);
  };
  return { metrics: { ...noMetrics, counter: () => ({ inc }) }, sent };
}

/** A store in a temporary database. */
export async function openMongoSubject(url: string, options: ProcessOptions = {}): Promise<MongoSubject> {
  const database = `test-${randomUUID()}`;
  const opened: MongoProcess[] = [];
  async function another({ clock = systemClock, fails = () => false }: ProcessOptions = {}) {
    const { metrics, sent } = watch(fails);
    const mongo = await openMongo({ url, database, log: silentLog, metrics });
    const one = { store: createMongoStore(mongo, { clock }), mongo, sent };
    opened.push(one);
    return one;
  }
  return {
    ...(await another(options)),
    another,
    afterCrash: async () => (await another()).store,
    async close() {
      for (const one of opened) await one.store.close();
      await opened[0]!.mongo.db.dropDatabase();
      for (const one of opened) await one.mongo.close();
    },
  };
}

/** Opens subjects for the tests of a file, each closed after its test. */
export function useMongoSubjects(url: string): (options?: ProcessOptions) => Promise<MongoSubject> {
  const closing = closeAfterEach();
  return async (options) => closing(await openMongoSubject(url, options));
}

/** The rows that commits have appended; the outbox rows of `dc_1`. */
export const appended = async (store: Store) => ({
  events: (await store.collection(events).list({ order: 'asc' })).map(({ indexed_at_ms }) => indexed_at_ms),
  logs: await store.collection(logs).count(),
  outbox: (await store.collection(outbox).list({ where: { emitter_id: 'dc_1' } })).length,
});

/** A commit of one run: an event per number, a log row and an outbox row. */
export function run(emitter: string, ifVersion: number, numbers: number[], payload = '1'): RunCommit {
  const key = (n: number) => String(n).padStart(8, '0');
  const run_id = `run_${emitter}_${numbers[0]}`;
  const rows = numbers.map((n) =>
    eventRow(emitter, key(n), { run_id, indexed_at_ms: n, emit_id: `e${n}`, payload }),
  );
  return {
    state: {
      id: emitter,
      db: {},
      epoch: 1,
      dedupe: {},
      last_ids: { events: key(numbers.at(-1)!) },
    },
    ifVersion,
    events: rows,
    logs: [logRow(emitter, key(numbers[0]!), { run_id, indexed_at_ms: 1 })],
    outbox: { id: run_id, emitter_id: emitter, created_at_ms: 1, message: JSON.stringify(payload) },
  };
}
