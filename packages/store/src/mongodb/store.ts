import type { Clock } from '@wellspring/core/clock';
import { Binary, type Document, type Mongo } from '@wellspring/mongodb/client';
import { refusesWrites, translateErrors } from '@wellspring/mongodb/errors';
import { events, logs } from '../collections/events.ts';
import { type OutboxRow, outbox } from '../collections/outbox.ts';
import { revisions } from '../collections/revisions.ts';
import { states } from '../collections/states.ts';
import { counted } from '../counted.ts';
import type { Collection, CollectionDefinition, Row, Store } from '../port.ts';
import { createCollection } from './collection.ts';
import { createCommits } from './commits.ts';
import { dropStaleIndexes } from './indexes.ts';
import { leased } from './leased-revisions.ts';
import { createPendingRows, type StoredState } from './pending-rows.ts';
import { createCodec, decodeString, encodeString } from './row.ts';

/** Written to see whether writes are taken again. */
const PROBE_BYTES = 1024 * 1024;

/** A store in MongoDB. Needs updates, unique indexes and bulk writes, no transactions. Closing leaves the connection open. */
export function createMongoStore({ db, ping }: Mongo, { clock }: { clock: Clock }): Store {
  const collections = new Map<string, Collection<never>>();
  const pending = createPendingRows(db, clock);
  /** A commit failed for lack of room or of the right to write, and the probe has not been written since. */
  let isRefusing = false;
  const commitRun = createCommits(db, pending, clock.now);

  function make<T extends Row>(definition: CollectionDefinition<T>): Collection<T> {
    if (definition.name === states.name) {
      return createCollection(db, definition, (rows) => pending.complete(rows as StoredState[]));
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
    return outboxOf(made as unknown as Collection<OutboxRow>) as unknown as Collection<T>;
  }

  /** The outbox: rows that are published at once are never appended to it. */
  function outboxOf(appended: Collection<OutboxRow>): Collection<OutboxRow> {
    const codec = createCodec(outbox);
    return {
      ...appended,
      async get(id) {
        const row = pending.held.unpublished(encodeString(id));
        return row ? codec.row(row) : appended.get(id);
      },
      // A query for left-behind rows must also find pending ones.
      async list(options) {
        const emitter = options?.where?.emitter_id;
        if (typeof emitter === 'string') await pending.settleAll(encodeString(emitter));
        else await Promise.all([pending.held.release(), pending.completeAbandoned()]);
        return appended.list(options);
      },
      async removeWhere(where, ...rest) {
        const { id } = where;
        if (typeof id !== 'object' || id === null || !('in' in id))
          return appended.removeWhere(where, ...rest);
        const left = await pending.held.published(id.in.map(encodeString));
        const removed = id.in.length - left.length;
        if (left.length === 0) return removed;
        return (
          removed + (await appended.removeWhere({ ...where, id: { in: left.map(decodeString) } }, ...rest))
        );
      },
    };
  }

  const store: Store = {
    collection<T extends Row>(definition: CollectionDefinition<T>): Collection<T> {
      let found = collections.get(definition.name) as Collection<T> | undefined;
      if (!found) {
        found = counted(make(definition), definition, () => store.collection(revisions));
        if (definition.name === revisions.name) found = leased(found as never) as never;
        collections.set(definition.name, found as unknown as Collection<never>);
      }
      return found;
    },
    publishesCommits: false,
    async commitRun(commit) {
      try {
        return await commitRun(commit);
      } catch (error) {
        isRefusing ||= refusesWrites(error);
        throw error;
      }
    },
    dropStaleIndexes: (definition) => dropStaleIndexes(db.collection(definition.name), definition),
    async ping() {
      await ping();
      if (!isRefusing) return;
      const row = { bytes: new Binary(Buffer.alloc(PROBE_BYTES)) };
      await translateErrors(db.collection<Document>('probe').replaceOne({}, row, { upsert: true }));
      isRefusing = false;
    },
    close: pending.close,
  };
  return store;
}

/** The emitter whose rows are to be removed; undefined if not restricted to one. */
function emitterOf(where: Partial<Record<string, unknown>>): string | undefined {
  const some = where.emitter_id ?? where.partition ?? where.channel;
  return typeof some === 'string' ? some.split('/')[0] : undefined;
}
