import { shardRange } from '@wellspring/core/ordering-key';
import type { Database } from '@wellspring/sqlite/database';
import type { DeadLetter, JobInput, QueueName } from '../port.ts';

/** The tables of the embedded queue. */

export interface StoredJob {
  seq: number;
  key: string;
  payload: string;
  published_at: number;
}

interface JobRow {
  queue: QueueName;
  seq: number;
  key: string;
  attempts: number;
  published_at: number;
}

export function createJobTable(db: Database) {
  // The payload is the last column: the others are read without loading its overflow pages.
  db.exec(`CREATE TABLE IF NOT EXISTS jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, key TEXT,
    attempts INTEGER NOT NULL DEFAULT 0, published_at INTEGER NOT NULL, payload TEXT NOT NULL)`);
  db.exec(`CREATE INDEX IF NOT EXISTS jobs_key ON jobs (queue, key)`);
  db.exec(`CREATE TABLE IF NOT EXISTS dead_letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT, queue TEXT NOT NULL, key TEXT, payload TEXT NOT NULL,
    reason TEXT NOT NULL, attempts INTEGER NOT NULL, died_at INTEGER NOT NULL)`);

  const INSERT = 'INSERT INTO jobs (queue, key, payload, published_at) VALUES (?, ?, ?, ?)';
  const REMOVE = 'DELETE FROM jobs WHERE seq = ?';
  const LETTERS =
    'SELECT CAST(id AS TEXT) AS id, queue, key, payload, reason, attempts, died_at FROM dead_letters';

  const insertNow = (queue: QueueName, { key, payload }: JobInput, now: number): StoredJob => {
    const { lastInsertRowid } = db.statement(INSERT).run(queue, key, payload, now);
    return { seq: Number(lastInsertRowid), key, payload, published_at: now };
  };

  const deadOne = (id: string) =>
    db.statement(`${LETTERS} WHERE id = ?`).get(Number(id) || 0) as unknown as DeadLetter | undefined;

  return {
    /** All jobs in the order of their publication, without their payloads. */
    all: () =>
      db
        .statement('SELECT queue, seq, key, attempts, published_at FROM jobs ORDER BY seq')
        .iterate() as Iterable<unknown> as Iterable<JobRow>,
    payload: (seq: number): string | undefined =>
      (db.statement('SELECT payload FROM jobs WHERE seq = ?').get(seq) as { payload: string } | undefined)
        ?.payload,
    insert: (queue: QueueName, jobs: readonly JobInput[], now: number): Promise<StoredJob[]> => {
      const [only] = jobs;
      if (jobs.length === 1 && only) return db.writeOne(() => [insertNow(queue, only, now)]);
      return db.write(() => jobs.map((job) => insertNow(queue, job, now)));
    },
    remove: (seqs: readonly number[]): Promise<void> =>
      db.write(() => {
        for (const seq of seqs) db.statement(REMOVE).run(seq);
      }),
    setAttempts: (seq: number, attempts: number) =>
      db.writeOne(() => db.statement('UPDATE jobs SET attempts = ? WHERE seq = ?').run(attempts, seq)),
    /** The `seq` of the removed jobs. */
    purge: (queue: QueueName, sourceId: string): Promise<Set<number>> =>
      db.writeOne(() => {
        const { from, before } = shardRange(sourceId);
        const rows = db
          .statement('DELETE FROM jobs WHERE queue = ? AND (key = ? OR (key >= ? AND key < ?)) RETURNING seq')
          .all(queue, sourceId, from, before) as { seq: number }[];
        return new Set(rows.map(({ seq }) => seq));
      }),
    /** Moves a job to the dead letters. */
    bury: (seq: number, reason: string, now: number) =>
      db.write(() => {
        db.statement(
          `INSERT INTO dead_letters (queue, key, payload, reason, attempts, died_at)
           SELECT queue, key, payload, ?, attempts + 1, ? FROM jobs WHERE seq = ?`,
        ).run(reason, now, seq);
        db.statement(REMOVE).run(seq);
      }),
    /** Newest first. @param after id of the last letter of the page before */
    dead: (after: string | undefined, limit: number): DeadLetter[] =>
      db
        .statement(`${LETTERS} WHERE id < ? ORDER BY dead_letters.id DESC LIMIT ?`)
        .all(
          after === undefined ? Number.MAX_SAFE_INTEGER : Number(after) || 0,
          limit,
        ) as unknown as DeadLetter[],
    deadOne,
    countDead: (): number =>
      (db.statement('SELECT count(*) AS n FROM dead_letters').get() as { n: number }).n,
    redrive: (id: string, now: number) =>
      db.write(() => {
        const letter = deadOne(id);
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
