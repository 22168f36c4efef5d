/**
 * Port `store`: documents in collections.
 *
 * Vocabulary: a *row* is a plain JSON object with a string `id`; its *version* rises by one with every write;
 * *indexes* are declared with the collection, and `where` may name only `id` and indexed fields.
 *
 * Every write resolves when it is durable (SQLite: after the fsync of the group commit; MongoDB: majority,
 * journaled) and is visible to whoever reads afterwards. The guarantees are those of `contract.ts`.
 */

export interface Row {
  id: string;
}

export interface Index<T extends Row> {
  /** Top-level fields, in this order. */
  fields: readonly (keyof T & string)[];
  /** A second row with the same values is a ConflictError. Rows in which a field is null or absent do not conflict. */
  unique?: boolean;
  /**
   * Rows in which the last field is null or absent are not looked for by this index, which need not hold them: a
   * `where` that names this field has to compare it with a value.
   */
  sparse?: boolean;
}

/** The declaration of a collection; one module below `collections/` each. */
export interface CollectionDefinition<T extends Row> {
  name: string;
  indexes: readonly Index<T>[];
  /** String fields that are large and kept out of the document (event payloads, code): never indexed; absent reads as ''. */
  texts?: readonly (keyof T & string)[];
  /** Only for the type. */
  row?: T;
}

type Comparison<V> = { in: readonly V[] } | { gt?: V; gte?: V; lt?: V; lte?: V };
/**
 * Equality, membership or a range per field; all of them hold. `null` matches absent and null. Strings compare by
 * code points. A field without an index, and `undefined`, are programming errors and throw.
 */
export type Where<T extends Row> = { [K in keyof T]?: T[K] | null | Comparison<T[K]> };

export interface ListOptions<T extends Row> {
  where?: Where<T>;
  /** Order by this field (indexed or `id`); `id` breaks ties. Default `id`. */
  orderBy?: keyof T & string;
  /** Default 'desc'. */
  order?: 'asc' | 'desc';
  limit?: number;
}

export interface Versioned<T> {
  row: T;
  version: number;
}

/** A unique index (or the id) is taken. */
export class ConflictError extends Error {
  override readonly name = 'ConflictError';
  readonly collection: string;
  /** Fields of the index, or ['id']. */
  readonly fields: readonly string[];
  constructor(collection: string, fields: readonly string[]) {
    super(`${collection}: a row with the same ${fields.join(', ')} exists`);
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
  /** Inserts those rows whose id and unique values are free; gives the ids inserted. Repeating it is harmless. */
  insertMany(rows: readonly T[]): Promise<string[]>;
  /** Replaces the row if it still has this version. @throws ConflictError */
  replace(row: T, ifVersion: number): Promise<boolean>;
  /** Sets top-level fields in one step (`undefined` removes one), if the row exists and matches. @throws ConflictError */
  patch(id: string, fields: Partial<T>, where?: Where<T>): Promise<boolean>;
  /** Adds to numeric top-level fields in one step; creates the row from `initial` when it is missing. */
  increment(id: string, by: Partial<Record<keyof T & string, number>>, initial: T): Promise<void>;
  remove(id: string): Promise<boolean>;
  /** Removes all rows that match, at most `limit`, the least by `orderBy` first when given; gives their number. */
  removeWhere(where: Where<T>, limit?: number, orderBy?: keyof T & string): Promise<number>;
  /**
   * Takes rows that match, in order, by setting `fields` on them: each goes to exactly one of several racing
   * claimers. `fields` must make the row match no longer. Gives the rows as they are afterwards.
   */
  claim(options: ListOptions<T> & { where: Where<T> }, fields: Partial<T>): Promise<T[]>;
}

/** Reads, changes and replaces until no other writer was in between. Gives undefined when there is no such row. */
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

import type { EventRow, LogRow } from './collections/events.ts';
import type { OutboxRow } from './collections/outbox.ts';
import type { EmitterStateRow } from './collections/states.ts';

/** All that one run, or several runs of one emitter, leave behind. See docs/architecture.md, rule 4. */
export interface RunCommit {
  /** The whole new state; its id is that of the emitter. */
  state: EmitterStateRow;
  /** Version of the state that this one was made from; 0 when there was none. */
  ifVersion: number;
  events: readonly EventRow[];
  logs: readonly LogRow[];
  outbox?: OutboxRow | undefined;
}

export interface Store {
  /** The same definition gives the same collection; its table and indexes are made or migrated on first use. */
  collection<T extends Row>(definition: CollectionDefinition<T>): Collection<T>;
  /**
   * State, events, logs and outbox entry in one atomic write. Several commits may be under way; they take effect in
   * the order of the calls. Resolves to false, having written nothing, when the state has another version: then
   * somebody else owns the emitter.
   */
  commitRun(commit: RunCommit): Promise<boolean>;
  /** Resolves when the database answers. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
