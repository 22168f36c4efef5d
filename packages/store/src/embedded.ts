import type { Database } from '@wellspring/sqlite/database';
import { events, logs } from './collections/events.ts';
import { outbox } from './collections/outbox.ts';
import { states } from './collections/states.ts';
import { createCollection, type EmbeddedCollection } from './embedded-collection.ts';
import { migrateCollection, prepareDatabase } from './embedded-schema.ts';
import type { Collection, CollectionDefinition, Row, RunCommit, Store } from './port.ts';

/** A commit with more events leaves turns of the event loop to others. */
const MAX_EVENTS_AT_ONCE = 250;

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

  /** Writes the rows of a commit one by one. Gives false when the state is another one by now. */
  function* rowsOf({ state, ifVersion, events: rows, logs: logsOfRuns, outbox: row }: RunCommit) {
    if (!stateRows.putNow(state, ifVersion)) return false;
    for (const event of rows) {
      eventRows.insertNow(event);
      yield;
    }
    for (const one of logsOfRuns) logRows.insertNow(one);
    // Last: what it announces must not be seen before the commit.
    if (row) outboxRows.insertNow(row);
    return true;
  }

  return {
    collection: collection as <T extends Row>(definition: CollectionDefinition<T>) => Collection<T>,
    commitRun(commit) {
      if (commit.events.length > MAX_EVENTS_AT_ONCE) return db.writeInSteps(() => rowsOf(commit));
      return db.write(() => {
        const steps = rowsOf(commit);
        for (let step = steps.next(); ; step = steps.next()) if (step.done) return step.value;
      });
    },
    async ping() {
      db.statement('SELECT 1').get();
    },
    close: async () => {},
  };
}
