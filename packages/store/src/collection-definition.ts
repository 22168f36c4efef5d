export interface Row {
  id: string;
}

export interface Index<T extends Row> {
  /** Top-level fields, in this order. */
  fields: readonly (keyof T & string)[];
  /** A second row with the same values is a ConflictError. Rows in which a field is null or absent do not conflict. */
  unique?: boolean;
  /** Omits rows in which a field is null or absent: a `where` must compare its fields with values. */
  sparse?: boolean;
  /**
   * The id of a row is the values of these two fields with a slash in between, and the second one starts with a digit: the
   * primary key may serve as the index. A `where` on the second field, or an order by it, needs a value of the first one.
   */
  primary?: true;
}

/** The declaration of a collection; one module below `collections/` each. */
export interface CollectionDefinition<T extends Row> {
  name: string;
  indexes: readonly Index<T>[];
  /** Large string fields stored outside of the document (event payloads, code): never indexed; absent reads as ''. */
  texts?: readonly (keyof T & string)[];
  /** Inserts are not urgent: an adapter may delay them by some milliseconds, so that they share statements. */
  insertsMayWait?: true;
  /** A write raises this revision (collections/revisions.ts) before it resolves, unless it patches only fields of `except`. */
  revision?: { of: string; except?: readonly (keyof T & string)[] };
  /** Only for the type. */
  row?: T;
}
