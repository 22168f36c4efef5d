import type { Clock } from '@wellspring/core/clock';
import type { Mongo } from '@wellspring/mongodb/client';
import { events, logs } from './collections/events.ts';
import { outbox } from './collections/outbox.ts';
import { states } from './collections/states.ts';
import { createCollection } from './mongodb-collection.ts';
import { createCommits } from './mongodb-commit.ts';
import { createPending, type StoredState } from './mongodb-pending.ts';
import { encodeString } from './mongodb-row.ts';
import type { Collection, CollectionDefinition, Row, Store } from './port.ts';

/**
 * A store in MongoDB, or in what speaks its protocol: plain updates, unique indexes and bulk writes are all it needs;
 * no transactions. Closing it leaves the connection open.
 */
export function createMongoStore({ db, ping }: Mongo, { clock }: { clock: Clock }): Store {
  const collections = new Map<string, Collection<never>>();
  const pending = createPending(db, clock);
  const commits = createCommits(db, pending, clock.now);

  function make<T extends Row>(definition: CollectionDefinition<T>): Collection<T> {
    if (definition.name === states.name) {
      return createCollection(db, definition, async (rows) => {
        await pending.complete(rows as StoredState[]);
        commits.completed(rows as StoredState[]);
      });
    }
    const made = createCollection(db, definition);
    if (definition.name === events.name || definition.name === logs.name) {
      return {
        ...made,
        async removeWhere(where, ...rest) {
          const emitter = emitterOf(where);
          if (emitter !== undefined) await pending.settle(encodeString(emitter));
          return made.removeWhere(where, ...rest);
        },
      };
    }
    if (definition.name !== outbox.name) return made;
    return {
      ...made,
      // Whoever looks for what is left behind also finds what is not appended yet.
      async list(options) {
        await pending.completeAbandoned();
        return made.list(options);
      },
    };
  }

  return {
    collection<T extends Row>(definition: CollectionDefinition<T>): Collection<T> {
      let found = collections.get(definition.name) as Collection<T> | undefined;
      if (!found) {
        found = make(definition);
        collections.set(definition.name, found as unknown as Collection<never>);
      }
      return found;
    },
    commitRun: commits.commitRun,
    ping,
    close: pending.close,
  };
}

/** Whose events or logs are to be removed; undefined: those of many, by their age. */
function emitterOf(where: Partial<Record<string, unknown>>): string | undefined {
  const some = where.emitter_id ?? where.partition ?? where.channel;
  return typeof some === 'string' ? some.split('/')[0] : undefined;
}
