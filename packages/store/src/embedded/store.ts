import type { Database } from '@wellspring/sqlite/database';
import { events, logs } from '../collections/events.ts';
import { type OutboxRow, outbox } from '../collections/outbox.ts';
import { type RevisionRow, revisions } from '../collections/revisions.ts';
import { states } from '../collections/states.ts';
import { counted } from '../counted.ts';
import type { Collection, CollectionDefinition, Row, Store } from '../port.ts';
import type { RunCommit } from '../run-commit.ts';
import { createCollection, type EmbeddedCollection } from './collection.ts';
import { createHiddenBatches } from './hidden-batches.ts';
import { dropStaleIndexes, migrateCollection, prepareDatabase, tableOf } from './schema.ts';
import { createStates, smallStates } from './states.ts';

/** The events of a larger commit are inserted in several transactions. */
const MAX_EVENTS_AT_ONCE = 250;

/**
 * Publishes the message of an outbox row within the transaction of the commit.
 * @returns a function to be called when the commit is durable
 */
export type PublishNow = (row: OutboxRow) => () => void;

/**
 * Keeps revisions in memory, since they are read for each event; they are written by `increment` only, and no other process
 * has the file open (see sqlite/lock). An increment that was rejected may have taken effect.
 */
function remembered(rows: EmbeddedCollection<RevisionRow>): EmbeddedCollection<RevisionRow> {
  const known = new Map<string, Promise<RevisionRow | undefined>>();
  return {
    ...rows,
    get(id) {
      let found = known.get(id);
      if (!found) {
        found = rows.get(id);
        known.set(id, found);
        found.catch(() => known.delete(id));
      }
      return found;
    },
    increment: (id, by, initial) => rows.increment(id, by, initial).finally(() => known.delete(id)),
  };
}

/**
 * A store in a SQLite file; see sqlite/database for when a write is durable.
 * @param publishNow of a queue in the same file; undefined if outbox rows are written
 */
export function createEmbeddedStore(db: Database, publishNow?: PublishNow): Store {
  prepareDatabase(db);
  const collections = new Map<string, EmbeddedCollection<never>>();

  function collection<T extends Row>(definition: CollectionDefinition<T>): EmbeddedCollection<T> {
    let found = collections.get(definition.name) as EmbeddedCollection<T> | undefined;
    if (!found) {
      migrateCollection(db, definition);
      const visible = definition.name === events.name ? () => batches.condition() : undefined;
      found = counted(createCollection(db, definition, visible), definition, () =>
        collection(revisions),
      ) as EmbeddedCollection<T>;
      if (definition.name === revisions.name) found = remembered(found as never) as never;
      collections.set(definition.name, found as unknown as EmbeddedCollection<never>);
    }
    return found;
  }

  const stateRows = createStates(db, collection(smallStates));
  const eventRows = collection(events);
  const batches = createHiddenBatches(db, tableOf(events), eventRows.insertNow);
  const logRows = collection(logs);
  const outboxRows = collection(outbox);
  const committing = new Set<Promise<unknown>>();

  /** Makes a commit in one transaction; see EmbeddedStates. */
  async function commitNow(commit: RunCommit, insertEvents: () => void): Promise<boolean> {
    let published = () => {};
    const done = await db.write(() => {
      if (!stateRows.putNow(commit)) return false;
      insertEvents();
      for (const one of commit.logs) logRows.insertNow(one);
      if (commit.outbox && publishNow) published = publishNow(commit.outbox);
      else if (commit.outbox) outboxRows.insertNow(commit.outbox);
      return true;
    });
    published();
    return done;
  }

  /** The transaction is short: thousands of events are inserted before, hidden. */
  async function commitLarge(commit: RunCommit): Promise<boolean> {
    const batch = await batches.insert(commit.events);
    let isDone = false;
    try {
      isDone = await commitNow(commit, batch.showNow);
      return isDone;
    } finally {
      await batch.end(isDone);
    }
  }

  return {
    collection: <T extends Row>(definition: CollectionDefinition<T>): Collection<T> =>
      definition.name === states.name
        ? (stateRows.collection as unknown as Collection<T>)
        : collection(definition),
    commitRun(commit) {
      if (commit.events.length <= MAX_EVENTS_AT_ONCE) {
        return commitNow(commit, () => {
          for (const event of commit.events) eventRows.insertNow(event);
        });
      }
      const made = commitLarge(commit);
      committing.add(made);
      return made.finally(() => committing.delete(made));
    },
    async dropStaleIndexes(definition) {
      collection(definition);
      return dropStaleIndexes(db, definition);
    },
    publishesCommits: publishNow !== undefined,
    ping: db.ping,
    async close() {
      while (committing.size > 0) await Promise.allSettled(committing);
    },
  };
}
