import type { DatabaseSync, StatementSync } from 'node:sqlite';

/** A write that waits for its commit. */
export interface WaitingWrite {
  work: () => unknown;
  /** A single statement, which is atomic by itself. */
  single: boolean;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

type Statement = (sql: string) => StatementSync;

/** Runs one of several writes in the open transaction. @throws its error, after its rollback */
function runOne(db: DatabaseSync, statement: Statement, { work, single }: WaitingWrite): unknown {
  if (single) return work();
  statement('SAVEPOINT work').run();
  try {
    const value = work();
    statement('RELEASE work').run();
    return value;
  } catch (error) {
    if (db.isTransaction) {
      statement('ROLLBACK TO work').run();
      statement('RELEASE work').run();
    }
    throw error;
  }
}

/**
 * Makes writes in one transaction; if one fails, only its own statements are rolled back, and it is rejected.
 * @returns functions that settle each write
 * @throws when the commit failed
 */
export function commitGroup(
  db: DatabaseSync,
  statement: Statement,
  group: readonly WaitingWrite[],
  reject: (group: readonly WaitingWrite[], error: unknown) => void,
): (() => void)[] {
  const only = group.length === 1 ? group[0] : undefined;
  if (only?.single) {
    const value = only.work();
    return [() => only.resolve(value)];
  }
  try {
    statement('BEGIN IMMEDIATE').run();
    const settle = group.map((one) => {
      try {
        const value = only ? one.work() : runOne(db, statement, one);
        return () => one.resolve(value);
      } catch (error) {
        // A full disk may have rolled back the transaction: further writes would commit on their own.
        if (only || !db.isTransaction) throw error;
        return () => reject([one], error);
      }
    });
    statement('COMMIT').run();
    return settle;
  } catch (error) {
    if (db.isTransaction) statement('ROLLBACK').run();
    throw error;
  }
}
