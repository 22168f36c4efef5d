import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';

/**
 * One SQLite file with group commit. The one door to node:sqlite.
 *
 * Fsync point: WAL with synchronous=FULL, so a COMMIT returns after the log is fsynced. All writes that are asked for
 * within a turn of the event loop share one COMMIT, and their promises resolve after it: what was resolved survives
 * SIGKILL and a power failure. Reads run at once, between commits, and so see only what is durable.
 */
export interface Database {
  /** Prepared once per text. */
  statement(sql: string): StatementSync;
  /**
   * Runs `work` in the next commit, in the order of the calls, and resolves with its result once that is durable.
   * A throw of `work` rolls back what it did, and nothing else.
   */
  write<T>(work: () => T): Promise<T>;
  /** As write; `work` is a single statement, which is atomic by itself. */
  writeOne<T>(work: () => T): Promise<T>;
  /** Runs statements at once, outside of any group: for schema changes at start. */
  exec(sql: string): void;
  /** Number of commits, for benchmarks. */
  readonly commits: number;
  /** Makes durable what was asked for, and closes the file. */
  close(): Promise<void>;
}

export type { SQLInputValue };

interface Pending {
  work: () => unknown;
  single: boolean;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

export function openDatabase(path: string): Database {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const db = new DatabaseSync(path, { enableForeignKeyConstraints: false });
  db.exec('PRAGMA busy_timeout = 5000');
  db.exec('PRAGMA journal_mode = WAL');
  db.exec('PRAGMA synchronous = FULL');
  db.exec('PRAGMA cache_size = -65536');
  db.exec('PRAGMA temp_store = MEMORY');
  db.exec('PRAGMA wal_autocheckpoint = 4000');
  const statements = new Map<string, StatementSync>();
  let pending: Pending[] = [];
  let scheduled = false;
  let closed = false;
  let commits = 0;

  function statement(sql: string): StatementSync {
    let found = statements.get(sql);
    if (!found) {
      found = db.prepare(sql);
      statements.set(sql, found);
    }
    return found;
  }

  function flush(): void {
    scheduled = false;
    const group = pending;
    if (group.length === 0) return;
    pending = [];
    const settle: (() => void)[] = [];
    try {
      statement('BEGIN IMMEDIATE').run();
    } catch (error) {
      for (const { reject } of group) reject(error);
      return;
    }
    for (const { work, single, resolve, reject } of group) {
      try {
        if (!single) statement('SAVEPOINT work').run();
        const value = work();
        if (!single) statement('RELEASE work').run();
        settle.push(() => resolve(value));
      } catch (error) {
        if (!single && db.isTransaction) {
          statement('ROLLBACK TO work').run();
          statement('RELEASE work').run();
        }
        settle.push(() => reject(error));
      }
    }
    try {
      statement('COMMIT').run();
      commits += 1;
    } catch (error) {
      // Nothing of the group is durable, e.g. because the disk is full.
      if (db.isTransaction) statement('ROLLBACK').run();
      for (const { reject } of group) reject(error);
      return;
    }
    for (const done of settle) done();
  }

  function enqueue<T>(work: () => T, single: boolean): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (closed) return reject(new Error('the database is closed'));
      pending.push({ work, single, resolve: resolve as (value: unknown) => void, reject });
      if (scheduled) return;
      scheduled = true;
      setImmediate(flush);
    });
  }

  return {
    statement,
    write: (work) => enqueue(work, false),
    writeOne: (work) => enqueue(work, true),
    exec: (sql) => db.exec(sql),
    get commits() {
      return commits;
    },
    async close() {
      if (closed) return;
      closed = true;
      flush();
      statements.clear();
      db.close();
    },
  };
}
