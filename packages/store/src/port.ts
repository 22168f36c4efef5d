/**
 * Port `store`: documents in collections.
 *
 * Vocabulary: a *row* is a plain JSON object with a string `id`; each write increments its *version*;
 * *indexes* are declared with the collection, and `where` may name only `id` and indexed fields.
 *
 * Every write resolves when it is durable (SQLite: after the fsync of the group commit; MongoDB: majority,
 * journaled) and visible to later reads. `conformance.ts` tests the guarantees.
 */

import type { CollectionDefinition, Row } from './collection-definition.ts';
import type { RunCommit } from './run-commit.ts';

export type { CollectionDefinition, Index, Row } from './collection-definition.ts';

type Comparison<V> = { in: readonly V[] } | { gt?: V; gte?: V; lt?: V; lte?: V };
/**
 * Equality, membership or a range per field, all of which must hold. `null` matches absent and null. Strings compare by
 * code points. A field without an index and `undefined` throw.
 */
export type Where<T extends Row> = { [K in keyof T]?: T[K] | null | Comparison<T[K]> };

export interface ListOptions<T extends Row> {
  where?: Where<T>;
  /** Order by this field (indexed or `id`); `id` breaks ties. Default `id`. */
  orderBy?: keyof T & string;
  /** Default 'desc'. */
  order?: 'asc' | 'desc';
  limit?: number;
  /** False: texts (see CollectionDefinition) are not read and are ''. */
  texts?: boolean;
}

export interface Versioned<T> {
  row: T;
  version: number;
}

/** The values of a unique index, or the id, are taken. */
export class ConflictError extends Error {
  override readonly name = 'ConflictError';
  readonly collection: string;
  /** Fields of the index, or ['id']. */
  readonly fields: readonly string[];
  constructor(collection: string, fields: readonly string[]) {
    super(`A row of ${collection} with the same ${fields.join(', ')} exists`);
    this.collection = collection;
    this.fields = fields;
  }
}

export interface Collection<T extends Row> {
  get(id: string): Promise<T | undefined>;
  getVersioned(id: string): Promise<Versioned<T> | undefined>;
  /** The first row by id that matches. */
  find(where: Where<T>): Promise<T | undefined>;
  list(options?: ListOptions<T>): Promise<T[]>;
  /** Counts up to `atMost` (default: all). */
  count(where?: Where<T>, atMost?: number): Promise<number>;
  /** @throws ConflictError */
  insert(row: T): Promise<void>;
  /** Inserts the rows without conflict; returns their ids. Idempotent. */
  insertMany(rows: readonly T[]): Promise<string[]>;
  /** Replaces the row if it has this version. @throws ConflictError */
  replace(row: T, ifVersion: number): Promise<boolean>;
  /** Sets top-level fields atomically (`undefined` removes one) if the row exists and matches. @throws ConflictError */
  patch(id: string, fields: Partial<T>, where?: Where<T>): Promise<boolean>;
  /** Adds to numeric top-level fields atomically; creates a missing row from `initial`. */
  increment(id: string, by: Partial<Record<keyof T & string, number>>, initial: T): Promise<void>;
  remove(id: string): Promise<boolean>;
  /** Removes matching rows, at most `limit`, lowest `orderBy` first; returns their number. */
  removeWhere(where: Where<T>, limit?: number, orderBy?: keyof T & string): Promise<number>;
  /**
   * Sets `fields` on matching rows, in order, and returns the new rows. Each row goes to exactly one of several
   * concurrent claimers; for that, `fields` must end the match.
   */
  claim(options: ListOptions<T> & { where: Where<T> }, fields: Partial<T>): Promise<T[]>;
}

/** Changes a row with optimistic locking. Returns undefined if it does not exist. */
export async function modify<T extends Row>(
  collection: Collection<T>,
  id: string,
  change: (row: T) => T,
): Promise<T | undefined> {
  for (;;) {
    const found = await collection.getVersioned(id);
    if (!found) return undefined;
    const row = change(found.row);
    if (await collection.replace(row, found.version)) return row;
  }
}

export interface Store {
  /** The table and its indexes are created on first use. No index is dropped: a newer version may have made it. */
  collection<T extends Row>(definition: CollectionDefinition<T>): Collection<T>;
  /** Drops indexes that the definition does not declare, and returns their names. For the command of operators alone. */
  dropStaleIndexes<T extends Row>(definition: CollectionDefinition<T>): Promise<string[]>;
  /**
   * Writes state, events, logs and outbox row atomically. A process makes one commit of a state at a time. Resolves to
   * false without writing if the state has another version or a later epoch: another process owns the emitter.
   */
  commitRun(commit: RunCommit): Promise<boolean>;
  /** A commit publishes its message by itself, in the same transaction: there are no outbox rows. */
  readonly publishesCommits: boolean;
  /** Resolves when the database answers and, after a write that failed for a full disk or a quota, takes writes again. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
