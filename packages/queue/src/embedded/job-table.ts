import type { Database } from '@wellspring/sqlite/database';
import { type DeadLetter, type JobInput, MAX_LISTED_CHARS, type QueueName } from '../port.ts';

/** The tables of the embedded queue. */

export interface StoredJob {
  seq: number;
  key: string;
  payload: string;
  published_at: number;
}

/** A waiting job without its payload. */
export interface JobRow {
  seq: number;
  key: string;
  attempts: number;
  published_at: number;
  /** Of the payload. */
  bytes: number;
}

export type JobTable = ReturnType<typeof createJobTable>;

export function createJobTable(db: Database) {
  // The payload is the last column: the others are read without loading its overflow pages.
  db.exec(`CREATE TABLE IF NOT EXISTS jobs (
    seq INTEGER PRIMARY KEY, queue TEXT NOT NULL, key TEXT,
    attempts INTEGER NOT NULL DEFAULT 0, published_at INTEGER NOT NULL, payload TEXT NOT NULL)`);
  db.exec(`CREATE INDEX IF NOT EXISTS jobs_key ON jobs (queue, key)`);
  db.exec(`CREATE TABLE IF NOT EXISTS dead_letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, key TEXT, payload TEXT NOT NULL,
    reason TEXT NOT NULL, attempts INTEGER NOT NULL, died_at INTEGER NOT NULL)`);

  const INSERT = 'INSERT INTO jobs (seq, queue, key, payload, published_at) VALUES (?, ?, ?, ?, ?)';
  const ROW = 'seq, key, attempts, published_at, octet_length(payload) AS bytes';
  const LETTERS =
    'SELECT CAST(id AS TEXT) AS id, queue, key, payload, reason, attempts, died_at FROM dead_letters';

  const { last } = db.statement('SELECT coalesce(max(seq), 0) AS last FROM jobs').get() as { last: number };
  let nextSeq = last + 1;

  const insertNow = (queue: QueueName, { key, payload }: JobInput, now: number): StoredJob => {
    const seq = nextSeq++;
    db.statement(INSERT).run(seq, queue, key, payload, now);
    return { seq, key, payload, published_at: now };
  };

  return {
    /** `seq` of the newest job at the start. */
    lastAtStart: last,
    count: (queue: QueueName): number =>
      (db.statement('SELECT count(*) AS n FROM jobs WHERE queue = ?').get(queue) as { n: number }).n,
    /** The first job of each key, in order. */
    firstOfKeys: (queue: QueueName): JobRow[] =>
      db
        .statement(
          `SELECT ${ROW} FROM jobs WHERE seq IN (SELECT min(seq) FROM jobs WHERE queue = ? GROUP BY key) ORDER BY seq`,
        )
        .all(queue) as unknown as JobRow[],
    /** Jobs of a key after one and up to another one, in order. */
    page: (queue: QueueName, key: string, after: number, upTo: number, limit: number): JobRow[] =>
      db
        .statement(
          `SELECT ${ROW} FROM jobs WHERE queue = ? AND key = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?`,
        )
        .all(queue, key, after, upTo, limit) as unknown as JobRow[],
    /** All jobs after one, in order. */
    after: (queue: QueueName, seq: number): JobRow[] =>
      db
        // The plus sign keeps SQLite from reading all jobs of the queue by the index of the keys.
        .statement(`SELECT ${ROW} FROM jobs WHERE seq > ? AND +queue = ? ORDER BY seq`)
        .all(seq, queue) as unknown as JobRow[],
    payload: (seq: number): string =>
      (db.statement('SELECT payload FROM jobs WHERE seq = ?').get(seq) as { payload: string }).payload,
    /** As a part of a write. */
    insertNow,
    insert: (queue: QueueName, jobs: readonly JobInput[], now: number): Promise<StoredJob[]> => {
      const [only] = jobs;
      if (jobs.length === 1 && only) return db.writeOne(() => [insertNow(queue, only, now)]);
      return db.write(() => jobs.map((job) => insertNow(queue, job, now)));
    },
    setAttempts: (seq: number, attempts: number) =>
      db.writeOne(() => db.statement('UPDATE jobs SET attempts = ? WHERE seq = ?').run(attempts, seq)),
    /** Moves a job to the dead letters. */
    addDeadLetter: (seq: number, reason: string, now: number) =>
      db.write(() => {
        db.statement(
          `INSERT INTO dead_letters (queue, key, payload, reason, attempts, died_at)
           SELECT queue, key, payload, ?, attempts + 1, ? FROM jobs WHERE seq = ?`,
        ).run(reason, now, seq);
        db.statement('DELETE FROM jobs WHERE seq = ?').run(seq);
      }),
    /** Newest first. @param after id of the last letter of the page before */
    dead(after: string | undefined, limit: number): DeadLetter[] {
      const before = after === undefined ? Number.MAX_SAFE_INTEGER : Number(after) || 0;
      const found: DeadLetter[] = [];
      let chars = 0;
      for (const row of db
        .statement(`${LETTERS} WHERE id < ? ORDER BY dead_letters.id DESC LIMIT ?`)
        .iterate(before, limit)) {
        const letter = row as unknown as DeadLetter;
        found.push(letter);
        chars += letter.payload.length;
        if (chars >= MAX_LISTED_CHARS) break;
      }
      return found;
    },
    countDead: (): number =>
      (db.statement('SELECT count(*) AS n FROM dead_letters').get() as { n: number }).n,
    redrive: (id: string, now: number) =>
      db.write(() => {
        const letter = db.statement(`${LETTERS} WHERE id = ?`).get(Number(id) || 0) as unknown as
          | DeadLetter
          | undefined;
        if (!letter) return undefined;
        const job = insertNow(letter.queue, letter, now);
        db.statement('DELETE FROM dead_letters WHERE id = ?').run(Number(id));
        return { queue: letter.queue, job };
      }),
    dropDead: (id: string): Promise<boolean> =>
      db.writeOne(
        () => db.statement('DELETE FROM dead_letters WHERE id = ?').run(Number(id) || 0).changes === 1,
      ),
  };
}
