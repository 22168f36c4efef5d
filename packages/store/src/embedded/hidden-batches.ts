import { setTimeout } from 'node:timers/promises';
import type { Database } from '@wellspring/sqlite/database';

/** Inserting and removing rows takes at most a quarter of the time, so that other work goes on. */
const STEP_MS = 2;
const PAUSE_MS = 6;
/** Rows removed in one step. */
const MAX_REMOVED = 250;

/** Rows that were inserted in several transactions and are hidden. */
export interface HiddenBatch {
  /** Within a transaction: the rows become visible. */
  showNow(): void;
  /** After that transaction. Removes the rows in steps if it has failed; rows that cannot be removed stay hidden. */
  end(isShown: boolean): Promise<void>;
}

/**
 * Inserts many rows of one table in short transactions, so that all of them become visible in another one. The version of
 * such a row is the negative number of its batch, which is hidden while the table `hidden_batches` has that number. After
 * a crash hidden rows are removed.
 */
export interface HiddenBatches<T> {
  /** An SQL condition for rows that are not hidden; undefined while none is. */
  condition(): string | undefined;
  /** @throws ConflictError, Unavailable; then no row is left visible */
  insert(rows: Iterable<T>): Promise<HiddenBatch>;
}

/**
 * @param table of a collection, which exists
 * @param insertNow within a transaction
 */
export function createHiddenBatches<T>(
  db: Database,
  table: string,
  insertNow: (row: T, version: number) => void,
): HiddenBatches<T> {
  // AUTOINCREMENT: no number is used twice, since rows that were shown keep it.
  db.exec(
    'CREATE TABLE IF NOT EXISTS hidden_batches (batch INTEGER PRIMARY KEY AUTOINCREMENT, first_rowid INTEGER NOT NULL)',
  );
  // Not SQLite's number, which it uses again after a rollback.
  let { last } = db
    .statement("SELECT coalesce(max(seq), 0) AS last FROM sqlite_sequence WHERE name = 'hidden_batches'")
    .get() as { last: number };
  const hidden = new Set<number>();
  /** Those that could not be removed. */
  const failed = new Set<number>();

  /** Together with its first rows, so that these follow `first_rowid`. */
  function openNow(batch: number): void {
    db.statement(
      `INSERT INTO hidden_batches (batch, first_rowid) SELECT ?, coalesce(max(rowid), 0) + 1 FROM ${table}`,
    ).run(batch);
  }

  const showNow = (batch: number) =>
    void db.statement('DELETE FROM hidden_batches WHERE batch = ?').run(batch);

  /** Does nothing to a batch that is shown. @param limit -1: none @returns false: no row is left */
  function removeNow(batch: number, limit: number): boolean {
    const first = 'SELECT first_rowid FROM hidden_batches WHERE batch = ?';
    const some = `SELECT rowid FROM ${table} WHERE rowid >= (${first}) AND version = ? LIMIT ?`;
    const removal = db.statement(`DELETE FROM ${table} WHERE rowid IN (${some})`);
    if (removal.run(batch, -batch, limit).changes !== 0) return true;
    showNow(batch);
    return false;
  }

  async function remove(batch: number): Promise<void> {
    failed.add(batch);
    while (await db.write(() => removeNow(batch, MAX_REMOVED))) await setTimeout(PAUSE_MS);
    failed.delete(batch);
    hidden.delete(batch);
  }

  async function end(batch: number, isShown: boolean): Promise<void> {
    if (isShown) hidden.delete(batch);
    else await remove(batch).catch(() => {});
  }

  const left = db.statement('SELECT batch FROM hidden_batches').all() as { batch: number }[];
  if (left.length > 0) {
    db.transaction(() => {
      for (const { batch } of left) while (removeNow(batch, -1));
    });
  }

  return {
    condition: () => (hidden.size === 0 ? undefined : 'version NOT IN (SELECT -batch FROM hidden_batches)'),
    async insert(rows) {
      for (const batch of failed) await remove(batch);
      last += 1;
      const batch = last;
      hidden.add(batch);
      const waiting = rows[Symbol.iterator]();
      let isOpen = false;
      /** @returns whether all rows are inserted */
      const step = () => {
        if (!isOpen) openNow(batch);
        isOpen = true;
        const until = performance.now() + STEP_MS;
        for (let next = waiting.next(); !next.done; next = waiting.next()) {
          insertNow(next.value, -batch);
          if (performance.now() >= until) return false;
        }
        return true;
      };
      try {
        while (!(await db.write(step))) await setTimeout(PAUSE_MS);
      } catch (error) {
        await end(batch, false);
        throw error;
      }
      return { showNow: () => showNow(batch), end: (isShown) => end(batch, isShown) };
    },
  };
}
