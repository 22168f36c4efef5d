import type { Database } from '@wellspring/sqlite/database';
import { events, logs } from './collections/events.ts';
import { outbox } from './collections/outbox.ts';
import { states } from './collections/states.ts';
import { createCollection, type EmbeddedCollection } from './embedded-collection.ts';
import { migrateCollection, prepareDatabase } from './embedded-schema.ts';
import type { Collection, CollectionDefinition, Row, Store } from './port.ts';

/** A store in a SQLite file; see sqlite/database for when a write is durable. */
export function createEmbeddedStore(db: Database): Store {
  prepareDatabase(db);
  const collections = new Map<string, EmbeddedCollection<never>>();

  function collection<T extends Row>(definition: CollectionDefinition<T>): EmbeddedCollection<T> {
    let found = collections.get(definition.name) as EmbeddedCollection<T> | undefined;
    if (!found) {
      migrateCollection(db, definition);
      found = createCollection(db, definition);
      collections.set(definition.name, found as unknown as EmbeddedCollection<never>);
    }
    return found;
  }

  const stateRows = collection(states);
  const eventRows = collection(events);
  const logRows = collection(logs);
  const outboxRows = collection(outbox);

  return {
    collection: collection as <T extends Row>(definition: CollectionDefinition<T>) => Collection<T>,
    commitRun: (commit) =>
      db.write(() => {
        if (!stateRows.putNow(commit.state, commit.ifVersion)) return false;
        for (const event of commit.events) eventRows.insertNow(event);
        for (const row of commit.logs) logRows.insertNow(row);
        if (commit.outbox) outboxRows.insertNow(commit.outbox);
        return true;
      }),
    async ping() {
      db.statement('SELECT 1').get();
    },
    close: async () => {},
  };
}
