import { closeSync, fdatasync, fdatasyncSync, fsyncSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { Unavailable } from '@wellspring/core/unavailable';
import { createCheckpoints } from './checkpoints.ts';
import { commitGroup, type WaitingWrite } from './commit-group.ts';
import { probeDisk, translate } from './disk-faults.ts';

/**
 * One SQLite file with group commit. Sole importer of node:sqlite.
 *
 * A write resolves after the write-ahead log that holds it was fsynced, so it survives SIGKILL and a power failure. The
 * fsync runs outside of SQLite (synchronous=NORMAL leaves the log to the operating system) and off the event loop;
 * writes requested meanwhile form the next commit. Reads run synchronously between commits and may see writes that are
 * not durable yet. Under load, commits keep a minimum distance, so that more writes share their pages.
 * When an fsync fails, or the log cannot be opened for the first one, its writes are rejected, and nothing is written
 * before a complete checkpoint: the log may be damaged. The checkpoint makes the rejected writes durable all the same.
 * When a commit fails (e.g. full disk), all its writes are rejected and rolled back.
 *
 * Faults of the disk (full, quota, read-only, I/O errors) and locks reject with Unavailable.
 */
export interface Database {
  /** Prepared once per SQL text; called for each execution. */
  statement(sql: string): StatementSync;
  /**
   * Runs `work` in the next commit, in the order of the calls, and resolves with its result when it is durable.
   * If `work` throws, only its own writes are rolled back.
   */
  write<T>(work: () => T): Promise<T>;
  /** As write; `work` is a single statement, which is atomic by itself. */
  writeOne<T>(work: () => T): Promise<T>;
  /**
   * As writeOne, for a write that is not urgent: it joins the next commit of several writes, or starts one after 100 ms.
   * A write alone goes without it: both would need a transaction.
   */
  writeSoon<T>(work: () => T): Promise<T>;
  /** Runs statements synchronously, outside of group commits: for schema changes at start. */
  exec(sql: string): void;
  /** Runs `work` synchronously in a separate transaction, for migrations at start. */
  transaction<T>(work: () => T): T;
  /**
   * Calls `listener` after the complete checkpoint that follows a failed fsync, before any later write: the writes that
   * were rejected are durable all the same.
   */
  onRecovered(listener: () => void): void;
  /** Number of commits, for benchmarks. */
  readonly commits: number;
  /**
   * Resolves when the file can be read and, after a commit that failed for a fault of the disk, can be written again.
   * @throws Unavailable
   */
  ping(): Promise<void>;
  /** Number of statements executed. */
  readonly executed: number;
  /** Commits pending writes and closes the file. */
  close(): Promise<void>;
}

export type { SQLInputValue };

export interface DatabaseOptions {
  /** Makes a file durable; default fdatasync. */
  sync?: (file: number, done: (error: Error | null) => void) => void;
}

/** After a commit with this many writes, the next one starts at least this many ms after it. */
const BUSY_WRITES = 16;
const MIN_COMMIT_INTERVAL_MS = 12;
const SOON_MS = 100;

/** Opens or creates the file and its directory; `:memory:` is not persistent. @throws Error when the file is not a database, or not writable */
export function openDatabase(path: string, { sync = fdatasync }: DatabaseOptions = {}): Database {
  const inMemory = path === ':memory:';
  if (!inMemory) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    // SQLite would make it world-readable; its other files inherit this mode.
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
  let pending: WaitingWrite[] = [];
  let scheduled = false;
  /** Writes of writeSoon. */
  const soon: WaitingWrite[] = [];
  let soonTimer: NodeJS.Timeout | undefined;
  /** Earliest start of the next commit, performance.now(). */
  let nextAt = 0;
  let closed = false;
  let commits = 0;
  let executed = 0;
  /** Descriptor of the write-ahead log, which exists from the first commit on. */
  let logFile: number | undefined;
  let syncing: Promise<void> | undefined;
  /** The log has a commit whose fsync failed: a later successful one does not prove that its pages are on the disk. */
  let isLogSuspect = false;
  const recoveryListeners: (() => void)[] = [];
  /** A commit failed because of a disk fault, and no commit of the probe's size has succeeded since. */
  let isDiskFaulty = false;
  let probing: Promise<void> | undefined;
  /** The last pass of a checkpoint is running; see checkpoints.ts. */
  let held = false;
  const checkpoints = createCheckpoints(path, (now) => {
    held = now;
    if (!held && pending.length > 0) schedule();
  });

  function statement(sql: string): StatementSync {
    executed += 1;
    let found = statements.get(sql);
    if (!found) {
      found = db.prepare(sql);
      statements.set(sql, found);
    }
    return found;
  }

  function openLog(): number {
    if (logFile === undefined) {
      // The directory entry has to be durable, too.
      const directory = openSync(dirname(path), 'r');
      try {
        fsyncSync(directory);
      } finally {
        closeSync(directory);
      }
      logFile = openSync(`${path}-wal`, 'r+');
    }
    return logFile;
  }

  /** Complete checkpoint, fsynced by SQLite. @throws Unavailable when it is incomplete */
  function checkpoint(): void {
    const { busy } = statement('PRAGMA wal_checkpoint(TRUNCATE)').get() as { busy: number };
    if (busy !== 0) throw new Unavailable('The checkpoint of the write-ahead log is incomplete.');
    for (const listener of recoveryListeners) listener();
    isLogSuspect = false;
  }

  function rejectAll(group: readonly WaitingWrite[], error: unknown): void {
    const reason = translate(error);
    isDiskFaulty ||= reason instanceof Unavailable;
    for (const { reject } of group) reject(reason);
  }

  /** @throws Unavailable while a file and a commit of some size find no room */
  async function probe(): Promise<void> {
    try {
      // Pages of the log may be all that fills the disk.
      statement('PRAGMA wal_checkpoint(TRUNCATE)').get();
      if (!inMemory) await probeDisk(`${path}-probe`);
      const { user_version } = statement('PRAGMA user_version').get() as { user_version: number };
      await enqueue(() => db.exec(`PRAGMA user_version = ${(user_version + 1) % 2}`), true);
      isDiskFaulty = false;
    } catch (error) {
      throw translate(error);
    }
  }

  /** Commits the pending writes and starts their fsync. */
  function flush(): void {
    scheduled = false;
    if (held) return;
    if (isLogSuspect && checkpoints.running) {
      // A second checkpoint would fail.
      void checkpoints.running.then(schedule);
      return;
    }
    if (pending.length !== 1) {
      pending.unshift(...soon.splice(0));
      clearTimeout(soonTimer);
      soonTimer = undefined;
    }
    const group = pending;
    if (group.length === 0) return;
    pending = [];
    nextAt = group.length < BUSY_WRITES ? 0 : performance.now() + MIN_COMMIT_INTERVAL_MS;
    const before = commits;
    let settle: (() => void)[];
    let log: number | undefined;
    try {
      if (isLogSuspect) checkpoint();
      settle = commitGroup(db, statement, group, rejectAll);
      commits += 1;
      log = inMemory ? undefined : openLog();
    } catch (error) {
      // Opening the log failed, after the commit.
      if (commits > before) isLogSuspect = true;
      rejectAll(group, error);
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
          isLogSuspect = true;
          rejectAll(group, error);
        } else {
          for (const tell of settle) tell();
          checkpoints.committed(file);
        }
        resolve();
        if (pending.length > 0) schedule();
      });
    });
  }

  /** One commit for all writes of an event loop turn, and of the time of the previous fsync. */
  function schedule(): void {
    if (scheduled || syncing || held) return;
    scheduled = true;
    const delay = nextAt === 0 ? 0 : nextAt - performance.now();
    if (delay > 0) setTimeout(flush, Math.ceil(delay));
    else setImmediate(flush);
  }

  function enqueue<T>(work: () => T, single: boolean): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (closed) return reject(new Error('The database is closed.'));
      pending.push({ work, single, resolve: resolve as (value: unknown) => void, reject });
      schedule();
    });
  }

  function enqueueSoon<T>(work: () => T): Promise<T> {
    if (closed) return Promise.reject(new Error('The database is closed.'));
    soonTimer ??= setTimeout(() => {
      soonTimer = undefined;
      pending.push(...soon.splice(0));
      schedule();
    }, SOON_MS);
    return new Promise<T>((resolve, reject) => {
      soon.push({ work, single: true, resolve: resolve as (value: unknown) => void, reject });
    });
  }

  return {
    statement,
    write: (work) => enqueue(work, false),
    writeOne: (work) => enqueue(work, true),
    writeSoon: enqueueSoon,
    onRecovered: (listener) => void recoveryListeners.push(listener),
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
    get executed() {
      return executed;
    },
    async ping() {
      statement('SELECT 1').get();
      if (!isDiskFaulty) return;
      probing ??= probe().finally(() => {
        probing = undefined;
      });
      await probing;
    },
    async close() {
      if (closed) return;
      closed = true;
      await checkpoints.close();
      for (;;) {
        await syncing;
        if (pending.length + soon.length === 0) break;
        flush();
      }
      if (isLogSuspect) checkpoint();
      if (logFile !== undefined) {
        fdatasyncSync(logFile);
        closeSync(logFile);
      }
      statements.clear();
      db.close();
    },
  };
}
