import { setTimeout } from 'node:timers/promises';
import type { Database } from '@wellspring/sqlite/database';
import { events, logs } from '../collections/events.ts';
import { outbox } from '../collections/outbox.ts';
import { states } from '../collections/states.ts';
import type { Collection, CollectionDefinition, Row, Store } from '../port.ts';
import type { RunCommit } from '../run-commit.ts';
import { createCollection, type EmbeddedCollection } from './collection.ts';
import { dropStaleIndexes, migrateCollection, prepareDatabase } from './schema.ts';

/** A commit with more events is staged in steps. */
const MAX_EVENTS_AT_ONCE = 250;
/** Staging takes a quarter of the time, so that other work goes on. */
const STAGE_MS = 2;
const STAGE_PAUSE_MS = 6;

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
  /** By state id: the newest staged commit. */
  const staging = new Map<string, Promise<boolean>>();

  /** Within a transaction. Returns false if the state has another version or a later epoch. */
  function commitNow(
    { state, ifVersion, logs: logsOfRuns, outbox: row }: RunCommit,
    insertEvents: () => void,
  ) {
    if (!stateRows.putNow(state, ifVersion, { epoch: state.epoch })) return false;
    insertEvents();
    for (const one of logsOfRuns) logRows.insertNow(one);
    if (row) outboxRows.insertNow(row);
    return true;
  }

  /** Stages thousands of events in steps, so that the transaction is short. */
  async function commitLarge(commit: RunCommit): Promise<boolean> {
    batches += 1;
    const batch = batches;
    try {
      let until = performance.now() + STAGE_MS;
      for (const event of commit.events) {
        eventRows.stage(event, batch);
        if (performance.now() < until) continue;
        await setTimeout(STAGE_PAUSE_MS);
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
      const before = staging.get(id);
      if (before === undefined && commit.events.length <= MAX_EVENTS_AT_ONCE) {
        return db.write(() =>
          commitNow(commit, () => {
            for (const event of commit.events) eventRows.insertNow(event);
          }),
        );
      }
      // Commits of one state must keep their order.
      const made = (async () => {
        await before?.catch(() => {});
        return commitLarge(commit);
      })();
      staging.set(id, made);
      const forget = () => {
        if (staging.get(id) === made) staging.delete(id);
      };
      made.then(forget, forget);
      return made;
    },
    async dropStaleIndexes(definition) {
      collection(definition);
      return dropStaleIndexes(db, definition);
    },
    async ping() {
      db.statement('SELECT 1').get();
    },
    async close() {
      await Promise.allSettled(staging.values());
    },
  };
}
