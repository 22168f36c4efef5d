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
 * code points. Throws for a field without an index and for a value `undefined`.
 */
export type Where<T extends Row> = { [K in keyof T]?: T[K] | null | Comparison<T[K]> };

export interface ListOptions<T extends Row> {
  where?: Where<T>;
  /** Order by this field (indexed or `id`); `id` breaks ties. Default `id`. */
  orderBy?: keyof T & string;
  /** Default 'desc'. */
  order?: 'asc' | 'desc';
  limit?: number;
  /** False: large texts (`texts` of CollectionDefinition) are not read and are ''. Default true. */
  texts?: boolean;
}

export interface Versioned<T> {
  row: T;
  version: number;
}

/** The values of a unique index, or the id, already exist. */
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
  /** The matching row with the lowest id. */
  find(where: Where<T>): Promise<T | undefined>;
  list(options?: ListOptions<T>): Promise<T[]>;
  /** Counts up to `atMost` (default: all). */
  count(where?: Where<T>, atMost?: number): Promise<number>;
  /** @throws ConflictError */
  insert(row: T): Promise<void>;
  /**
   * Inserts the rows that do not conflict and skips the others; returns the ids of those inserted. Never throws
   * ConflictError.
   */
  insertMany(rows: readonly T[]): Promise<string[]>;
  /** Replaces the row if it has this version. @throws ConflictError */
  replace(row: T, ifVersion: number): Promise<boolean>;
  /**
   * Sets top-level fields atomically if the row exists and matches; `undefined` removes the field.
   * @throws ConflictError
   */
  patch(id: string, fields: Partial<T>, where?: Where<T>): Promise<boolean>;
  /** Adds `by` to numeric top-level fields atomically; inserts `initial` with `by` added if the row is missing. */
  increment(id: string, by: Partial<Record<keyof T & string, number>>, initial: T): Promise<void>;
  remove(id: string): Promise<boolean>;
  /** Removes matching rows, at most `limit`; returns their number. */
  removeWhere(where: Where<T>, limit?: number): Promise<number>;
  /**
   * Sets `fields` on matching rows in the given order and returns the rows as changed. Of several concurrent claimers,
   * exactly one gets a row; so `fields` must make a row no longer match `where`.
   */
  claim(options: ListOptions<T> & { where: Where<T> }, fields: Partial<T>): Promise<T[]>;
}

/**
 * Changes a row with optimistic locking: `change` runs again if the row was written in the meantime. Returns undefined if
 * the row does not exist.
 */
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
  /** The table and its indexes are created on first use. No index is dropped: a newer version of the platform may use it. */
  collection<T extends Row>(definition: CollectionDefinition<T>): Collection<T>;
  /** Drops indexes that the definition does not declare, and returns their names. Only for the operator's maintenance command. */
  dropStaleIndexes<T extends Row>(definition: CollectionDefinition<T>): Promise<string[]>;
  /**
   * Writes state, events, logs and outbox row atomically. The caller must not run two commits of one state at the same
   * time. Resolves to false without writing if the state has another version or a later epoch: another process owns the
   * emitter.
   */
  commitRun(commit: RunCommit): Promise<boolean>;
  /** True if `commitRun` publishes its message in the same transaction, so that there are no outbox rows. */
  readonly publishesCommits: boolean;
  /** Resolves when the database answers and, after a write that failed because of a full disk, a quota or a missing right, takes writes again. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
