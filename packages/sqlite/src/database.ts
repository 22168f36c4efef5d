import { closeSync, fdatasync, fdatasyncSync, fsyncSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { createCheckpoints } from './checkpoints.ts';

/**
 * One SQLite file with group commit. The one door to node:sqlite.
 *
 * Fsync point: a write is resolved after the write-ahead log that holds it was fsynced, so it survives SIGKILL and a
 * power failure. The fsync is made outside of SQLite (whose own synchronous=NORMAL leaves the log to the operating
 * system) and off the event loop; what is asked for while it is under way makes up the next commit. Reads run at once,
 * between commits; they may see what becomes durable a moment later. While much is written, commits keep a distance:
 * what they write of the trees and the log is then shared by more.
 * When the fsync fails, its writes are rejected, and nothing more is written before a checkpoint has brought the whole
 * log into the database file: the log itself is not to be trusted then.
 * When a commit fails (a full disk), all its writes are rejected and none is done; the next commit tries anew.
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
  /** Runs work at once in a transaction of its own, for changes of several statements at start. */
  transaction<T>(work: () => T): T;
  /** Number of commits, for benchmarks. */
  readonly commits: number;
  /** Makes durable what was asked for, and closes the file. */
  close(): Promise<void>;
}

export type { SQLInputValue };

export interface DatabaseOptions {
  /** Makes a file durable; default fdatasync. */
  sync?: (file: number, done: (error: Error | null) => void) => void;
}

/** After a commit of so many works the next one begins this many ms after it did, at the earliest. */
const BUSY_WORKS = 16;
const DISTANCE_MS = 4;

interface Pending {
  work: () => unknown;
  single: boolean;
  resolve(value: unknown): void;
  reject(error: unknown): void;
}

/** Opens or makes the file and its directory; `:memory:` keeps nothing. @throws Error when the file is no database, or not ours to write */
export function openDatabase(path: string, { sync = fdatasync }: DatabaseOptions = {}): Database {
  const inMemory = path === ':memory:';
  if (!inMemory) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    // SQLite would make it readable to everybody; the files beside it get the mode of this one.
    closeSync(openSync(path, 'a', 0o600));
  }
  const db = new DatabaseSync(path, { enableForeignKeyConstraints: false });
  db.exec('PRAGMA busy_timeout = 5000');
  db.exec('PRAGMA journal_mode = WAL');
  db.exec('PRAGMA synchronous = NORMAL');
  db.exec('PRAGMA cache_size = -65536');
  db.exec('PRAGMA temp_store = MEMORY');
  // See checkpoints.ts.
  db.exec('PRAGMA wal_autocheckpoint = 0');
  const statements = new Map<string, StatementSync>();
  let pending: Pending[] = [];
  let scheduled = false;
  /** The earliest begin of the next commit, by performance.now(). */
  let nextAt = 0;
  let closed = false;
  let commits = 0;
  /** Of the write-ahead log, which is there from the first commit on and stays the same file. */
  let logFile: number | undefined;
  let syncing: Promise<void> | undefined;
  /** An fsync of the log failed: what it holds may not be on the disk, whatever a later fsync says. */
  let doubtful = false;
  const checkpoints = createCheckpoints(path, () => statement('PRAGMA wal_checkpoint(TRUNCATE)').get());

  function statement(sql: string): StatementSync {
    let found = statements.get(sql);
    if (!found) {
      found = db.prepare(sql);
      statements.set(sql, found);
    }
    return found;
  }

  /** Runs one piece of work within the open transaction. @throws what it throws, its own writes undone */
  function runOne({ work, single }: Pending): unknown {
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

  /** Gives what is to be told to each of the group. @throws when nothing of the group is durable */
  function commit(group: readonly Pending[]): (() => void)[] {
    try {
      statement('BEGIN IMMEDIATE').run();
      const settle = group.map((one) => {
        try {
          const value = runOne(one);
          return () => one.resolve(value);
        } catch (error) {
          // A full disk may have ended the whole transaction: whatever ran now would commit by itself.
          if (!db.isTransaction) throw error;
          return () => one.reject(error);
        }
      });
      statement('COMMIT').run();
      commits += 1;
      return settle;
    } catch (error) {
      if (db.isTransaction) statement('ROLLBACK').run();
      throw error;
    }
  }

  function openLog(): number {
    if (logFile === undefined) {
      logFile = openSync(`${path}-wal`, 'r+');
      // Its name has to be durable, too.
      const directory = openSync(dirname(path), 'r');
      fsyncSync(directory);
      closeSync(directory);
    }
    return logFile;
  }

  /** Brings the log into the database file, which SQLite fsyncs itself. @throws while that fails */
  function checkpoint(): void {
    const { busy } = statement('PRAGMA wal_checkpoint(TRUNCATE)').get() as { busy: number };
    if (busy !== 0) throw new Error('the write-ahead log could not be brought into the database');
    doubtful = false;
  }

  /** Commits what is asked for, and makes it durable while the event loop goes on. */
  function flush(): void {
    scheduled = false;
    const group = pending;
    if (group.length === 0) return;
    pending = [];
    nextAt = group.length < BUSY_WORKS ? 0 : performance.now() + DISTANCE_MS;
    let settle: (() => void)[];
    let log: number | undefined;
    try {
      if (doubtful) checkpoint();
      settle = commit(group);
      log = inMemory ? undefined : openLog();
    } catch (error) {
      for (const { reject } of group) reject(error);
      if (pending.length > 0) schedule();
      return;
    }
    if (log === undefined) {
      for (const tell of settle) tell();
      return;
    }
    const file = log;
    syncing = new Promise((resolve) => {
      sync(file, (error) => {
        syncing = undefined;
        if (error) {
          doubtful = true;
          for (const { reject } of group) reject(error);
        } else {
          for (const tell of settle) tell();
          checkpoints.committed(file);
        }
        resolve();
        if (pending.length > 0) schedule();
      });
    });
  }

  /** One commit for all that comes up within a turn, and while the one before is being made durable. */
  function schedule(): void {
    if (scheduled || syncing) return;
    scheduled = true;
    const rest = nextAt === 0 ? 0 : nextAt - performance.now();
    if (rest > 0) setTimeout(flush, Math.ceil(rest));
    else setImmediate(flush);
  }

  function enqueue<T>(work: () => T, single: boolean): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (closed) return reject(new Error('the database is closed'));
      pending.push({ work, single, resolve: resolve as (value: unknown) => void, reject });
      schedule();
    });
  }

  return {
    statement,
    write: (work) => enqueue(work, false),
    writeOne: (work) => enqueue(work, true),
    exec: (sql) => db.exec(sql),
    transaction(work) {
      db.exec('BEGIN IMMEDIATE');
      try {
        const value = work();
        db.exec('COMMIT');
        return value;
      } catch (error) {
        if (db.isTransaction) db.exec('ROLLBACK');
        throw error;
      }
    },
    get commits() {
      return commits;
    },
    async close() {
      if (closed) return;
      closed = true;
      for (;;) {
        await syncing;
        if (pending.length === 0) break;
        flush();
      }
      await checkpoints.close();
      if (doubtful) checkpoint();
      if (logFile !== undefined) {
        fdatasyncSync(logFile);
        closeSync(logFile);
      }
      statements.clear();
      db.close();
    },
  };
}
