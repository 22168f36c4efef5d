import { type Backoff, backoff } from '@wellspring/core/backoff';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { parseOrderingKey } from '@wellspring/core/ordering-key';
import type { Database } from '@wellspring/sqlite/database';
import { createDispatcher, type Dispatcher } from './dispatcher.ts';
import { createJobTable, type StoredJob } from './embedded-table.ts';
import { backoffOf, classifyFailure } from './failure.ts';
import { createLanes, type Entry, type Lane, type Lanes } from './lanes.ts';
import { type Handler, type Job, type JobInput, QUEUES, type Queue, type QueueName } from './port.ts';

const REMOVE_BACKOFF: Backoff = { baseMs: 100, maxMs: 30_000 };
/** Payloads beyond are read from the file when their turn comes. */
const CACHED_BYTES = 64 * 1024 * 1024;

interface Line {
  lanes: Lanes;
  dispatcher: Dispatcher;
}

/** A queue in a SQLite file: a job is durable when its row is; see sqlite/database. */
export function createEmbeddedQueue(db: Database, { clock, log }: { clock: Clock; log: Log }): Queue {
  const table = createJobTable(db);
  const lines = new Map<QueueName, Line>();
  const closing = new AbortController();
  let cachedBytes = 0;

  for (const queue of QUEUES) {
    const lanes = createLanes();
    const dispatcher = createDispatcher({
      lanes,
      handle: (handler, lane, entries) => handOut(queue, handler, lane, entries),
      clock,
      log,
      closing: closing.signal,
    });
    lines.set(queue, { lanes, dispatcher });
  }
  const lineOf = (queue: QueueName) => lines.get(queue)!;

  function enqueue(queue: QueueName, entry: Entry): void {
    const line = lineOf(queue);
    if (entry.payload !== undefined) {
      cachedBytes += entry.payload.length;
      if (cachedBytes > CACHED_BYTES) forget(entry);
    }
    line.lanes.add(entry);
    line.dispatcher.dispatch();
  }

  function forget(entry: Entry): void {
    cachedBytes -= entry.payload?.length ?? 0;
    entry.payload = undefined;
  }

  for (const { queue, seq, key, attempts, published_at } of table.waiting()) {
    // Rows of a queue that this version does not know stay where they are.
    if (!lines.has(queue)) continue;
    enqueue(queue, { seq, key, attempts, publishedAt: published_at, payload: undefined });
  }

  function toJob(entry: Entry): Job | undefined {
    const payload = entry.payload ?? table.payload(entry.seq);
    if (payload === undefined) return undefined;
    return {
      id: String(entry.seq),
      key: entry.key,
      payload,
      attempt: entry.attempts + 1,
      published_at: entry.publishedAt,
    };
  }

  async function handOut(queue: QueueName, handler: Handler, lane: Lane, entries: Entry[]): Promise<number> {
    const line = lineOf(queue);
    try {
      // A job whose row is gone was purged meanwhile.
      const jobs = entries.map(toJob).filter((job) => job !== undefined);
      const [first, ...others] = jobs;
      if (first) await handler([first, ...others]);
      acknowledge(line, entries);
      return 0;
    } catch (error) {
      return failed(queue, line, lane, entries, error);
    }
  }

  /**
   * The rows go with the next commit; should a crash come first, the jobs are handed out once more. One that stayed
   * for longer would come again when nobody knows any more that it is done: so it is tried until it is gone.
   */
  function acknowledge(line: Line, entries: readonly Entry[]): void {
    for (const entry of entries) forget(entry);
    line.lanes.settle(entries.length);
    void removeRows(entries.map(({ seq }) => seq));
  }

  async function removeRows(seqs: readonly number[]): Promise<void> {
    for (let failures = 1; ; failures++) {
      try {
        return await table.remove(seqs);
      } catch (error) {
        log.warn({ jobs: seqs.length, error: String(error) }, 'queue.ack_failed');
      }
      await clock.sleep(backoff(failures, REMOVE_BACKOFF), closing.signal);
      if (closing.signal.aborted) return;
    }
  }

  /** Gives the jobs back, except one that is dead now. Gives the ms for which the lane rests. */
  async function failed(
    queue: QueueName,
    line: Line,
    lane: Lane,
    entries: readonly Entry[],
    error: unknown,
  ): Promise<number> {
    const reason = String(error);
    const [first] = entries as [Entry, ...Entry[]];
    const { dead, counts } = classifyFailure(error, entries, ({ seq }) => String(seq));
    const fields = { queue, key: first.key, job: (dead ?? first).seq, reason };
    let counted = counts;
    try {
      if (dead) {
        await table.bury(dead.seq, reason, clock.now());
        forget(dead);
        line.lanes.settle(1);
        line.lanes.giveBack(
          lane,
          entries.filter((entry) => entry !== dead),
        );
        log.error(fields, 'queue.job_dead');
        return 0;
      }
      log.warn({ ...fields, attempt: first.attempts + 1 }, 'queue.job_failed');
      if (counts) {
        await table.setAttempts(first.seq, first.attempts + 1);
        first.attempts += 1;
      }
    } catch (writeError) {
      // The database does not answer, which is no fault of the jobs: they stay what they are, and their lane waits.
      counted = false;
      log.error({ queue, error: String(writeError) }, 'queue.write_failed');
    }
    if (!counted) first.uncounted = (first.uncounted ?? 0) + 1;
    line.lanes.giveBack(lane, entries);
    return backoffOf(first, counted);
  }

  function enqueueStored(queue: QueueName, { seq, key, published_at, payload }: StoredJob): void {
    enqueue(queue, { seq, key, attempts: 0, publishedAt: published_at, payload });
  }

  async function publishMany(queue: QueueName, jobs: readonly JobInput[]): Promise<void> {
    if (jobs.some(({ key }) => !key)) throw new Error(`a job on the queue ${queue} needs a key`);
    if (jobs.length === 0) return;
    for (const stored of await table.insert(queue, jobs, clock.now())) enqueueStored(queue, stored);
  }

  return {
    publish: (queue, job) => publishMany(queue, [job]),
    publishMany,
    consume(queue, handler, options) {
      const { dispatcher } = lineOf(queue);
      const gone = dispatcher.consume(handler, options);
      dispatcher.dispatch();
      return gone;
    },
    depth: async (queue) => lineOf(queue).lanes.size,
    async purgeKey(queue, key) {
      const { lanes } = lineOf(queue);
      const removed = await table.purge(queue, key);
      for (const name of [...lanes.names()]) {
        if (parseOrderingKey(name).sourceId !== key) continue;
        for (const entry of lanes.purge(name, ({ seq }) => removed.has(seq))) forget(entry);
      }
    },
    deadLetters: {
      list: async ({ after, limit = 100 } = {}) => table.dead(after, limit),
      get: async (id) => table.deadOne(id),
      count: async () => table.countDead(),
      async redrive(id) {
        const revived = await table.revive(id, clock.now());
        if (revived) enqueueStored(revived.queue, revived.job);
        return revived !== undefined;
      },
      drop: (id) => table.dropDead(id),
    },
    async ping() {
      db.statement('SELECT 1').get();
    },
    async close() {
      closing.abort();
    },
  };
}
