import { setTimeout } from 'node:timers/promises';
import type { Database } from '@wellspring/sqlite/database';
import { events, logs } from './collections/events.ts';
import { outbox } from './collections/outbox.ts';
import { states } from './collections/states.ts';
import { createCollection, type EmbeddedCollection } from './embedded-collection.ts';
import { migrateCollection, prepareDatabase } from './embedded-schema.ts';
import type { Collection, CollectionDefinition, Row, RunCommit, Store } from './port.ts';

/** A commit with more events is prepared in steps. */
const MAX_EVENTS_AT_ONCE = 250;
/** Steps take a quarter of the time, so that others are served. */
const STAGE_MS = 2;
const STAGE_REST_MS = 6;

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
  let batches = 0;
  /** The newest commit in steps, by the id of its state. */
  const underWay = new Map<string, Promise<boolean>>();

  /** Within a write. Gives false when the state is another one by now. */
  function commitNow(
    { state, ifVersion, logs: logsOfRuns, outbox: row }: RunCommit,
    insertEvents: () => void,
  ) {
    if (!stateRows.putNow(state, ifVersion)) return false;
    insertEvents();
    for (const one of logsOfRuns) logRows.insertNow(one);
    if (row) outboxRows.insertNow(row);
    return true;
  }

  /** Prepares thousands of events while others are served; the transaction that keeps them is short then. */
  async function commitLarge(commit: RunCommit): Promise<boolean> {
    batches += 1;
    const batch = batches;
    try {
      let until = performance.now() + STAGE_MS;
      for (const event of commit.events) {
        eventRows.stage(event, batch);
        if (performance.now() < until) continue;
        await setTimeout(STAGE_REST_MS);
        until = performance.now() + STAGE_MS;
      }
      return await db.write(() => commitNow(commit, () => eventRows.insertStagedNow(batch)));
    } finally {
      eventRows.unstage(batch);
    }
  }

  return {
    collection: collection as <T extends Row>(definition: CollectionDefinition<T>) => Collection<T>,
    commitRun(commit) {
      const { id } = commit.state;
      const before = underWay.get(id);
      if (before === undefined && commit.events.length <= MAX_EVENTS_AT_ONCE) {
        return db.write(() =>
          commitNow(commit, () => {
            for (const event of commit.events) eventRows.insertNow(event);
          }),
        );
      }
      // Commits of one state build on each other, so that they keep their order.
      const made = (async () => {
        await before?.catch(() => {});
        return commitLarge(commit);
      })();
      underWay.set(id, made);
      const forget = () => {
        if (underWay.get(id) === made) underWay.delete(id);
      };
      made.then(forget, forget);
      return made;
    },
    async ping() {
      db.statement('SELECT 1').get();
    },
    async close() {
      await Promise.allSettled(underWay.values());
    },
  };
}
