import { randomUUID } from 'node:crypto';
import { systemClock } from '@wellspring/core/clock';
import { silentLog } from '@wellspring/core/log';
import { type Mongo, type MongoTarget, openMongo } from '@wellspring/mongodb/client';
import type { StoreSubject } from './contract.ts';
import { createMongoStore } from './mongodb.ts';
import type { Store } from './port.ts';

export interface MongoSubject extends StoreSubject {
  mongo: Mongo;
  /** Another process on the same database. */
  another(options?: Partial<MongoTarget>): Promise<{ store: Store; mongo: Mongo }>;
}

/** A store in a database of its own. For tests. */
export async function openMongoSubject(
  url: string,
  options: Partial<MongoTarget> = {},
): Promise<MongoSubject> {
  const database = `test-${randomUUID()}`;
  const opened: { store: Store; mongo: Mongo }[] = [];
  async function another(more: Partial<MongoTarget> = {}) {
    const mongo = await openMongo({ url, database, log: silentLog, ...options, ...more });
    const one = { store: createMongoStore(mongo, { clock: systemClock }), mongo };
    opened.push(one);
    return one;
  }
  const { store, mongo } = await another();
  return {
    store,
    mongo,
    another,
    afterCrash: async () => (await another()).store,
    async close() {
      await mongo.db.dropDatabase();
      for (const one of opened.reverse()) {
        await one.store.close();
        await one.mongo.close();
      }
    },
  };
}
