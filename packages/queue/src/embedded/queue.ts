import { type Backoff, backoff } from '@wellspring/core/backoff';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { parseOrderingKey } from '@wellspring/core/ordering-key';
import type { Database } from '@wellspring/sqlite/database';
import { createDispatcher, type Dispatcher } from '../dispatcher.ts';
import { backoffOf, classifyFailure } from '../failure.ts';
import { createKeyQueues, type Entry, type KeyQueue, type KeyQueues } from '../key-queues.ts';
import { type Handler, type Job, type JobInput, QUEUES, type Queue, type QueueName } from '../port.ts';
import { createJobTable, type StoredJob } from './job-table.ts';

const REMOVE_BACKOFF: Backoff = { baseMs: 100, maxMs: 30_000 };
/** Further payloads are read from the database when their jobs are handed out. */
const MAX_CACHED_BYTES = 64 * 1024 * 1024;

interface State {
  keyQueues: KeyQueues;
  dispatcher: Dispatcher;
}

/** Queue on SQLite; see sqlite/database for durability. */
export function createEmbeddedQueue(db: Database, { clock, log }: { clock: Clock; log: Log }): Queue {
  const table = createJobTable(db);
  const states = new Map<QueueName, State>();
  const closing = new AbortController();
  let cachedBytes = 0;

  for (const queue of QUEUES) {
    const keyQueues = createKeyQueues();
    const dispatcher = createDispatcher({
      keyQueues,
      handle: (handler, keyQueue, entries, next) => handOut(queue, handler, keyQueue, entries, next),
      clock,
      log,
      closing: closing.signal,
    });
    states.set(queue, { keyQueues, dispatcher });
  }
  const stateOf = (queue: QueueName) => states.get(queue)!;

  function enqueue(queue: QueueName, entry: Entry): void {
    const state = stateOf(queue);
    if (entry.payload !== undefined) {
      cachedBytes += entry.payload.length;
      if (cachedBytes > MAX_CACHED_BYTES) dropCachedPayload(entry);
    }
    state.keyQueues.add(entry);
    state.dispatcher.dispatch();
  }

  function dropCachedPayload(entry: Entry): void {
    cachedBytes -= entry.payload?.length ?? 0;
    entry.payload = undefined;
  }

  for (const { queue, seq, key, attempts, published_at } of table.all()) {
    // A queue of a newer version.
    if (!states.has(queue)) continue;
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
      epoch: 1,
    };
  }

  async function handOut(
    queue: QueueName,
    handler: Handler,
    keyQueue: KeyQueue,
    entries: Entry[],
    next: () => void,
  ): Promise<number | undefined> {
    const state = stateOf(queue);
    try {
      // Jobs without a row were purged.
      const jobs = entries.map(toJob).filter((job) => job !== undefined);
      const [first, ...others] = jobs;
      if (first) await handler([first, ...others], next);
      acknowledge(state, entries);
      return undefined;
    } catch (error) {
      return failed(queue, state, keyQueue, entries, error);
    }
  }

  /**
   * The rows are removed with the next commit; after a crash before it, the jobs are redelivered. The removal is retried
   * until it succeeds: a later redelivery would find no trace of the first one.
   */
  function acknowledge(state: State, entries: readonly Entry[]): void {
    for (const entry of entries) dropCachedPayload(entry);
    state.keyQueues.settle(entries.length);
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

  /** Returns the jobs to their queue, except a dead one. @returns ms to wait before the next batch */
  async function failed(
    queue: QueueName,
    state: State,
    keyQueue: KeyQueue,
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
        dropCachedPayload(dead);
        state.keyQueues.settle(1);
        state.keyQueues.giveBack(
          keyQueue,
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
      // The jobs are not at fault: no attempt is counted.
      counted = false;
      log.error({ queue, error: String(writeError) }, 'queue.write_failed');
    }
    if (!counted) first.uncounted = (first.uncounted ?? 0) + 1;
    state.keyQueues.giveBack(keyQueue, entries);
    return backoffOf(first, counted);
  }

  function enqueueStored(queue: QueueName, { seq, key, published_at, payload }: StoredJob): void {
    enqueue(queue, { seq, key, attempts: 0, publishedAt: published_at, payload });
  }

  async function publishMany(queue: QueueName, jobs: readonly JobInput[]): Promise<void> {
    if (jobs.some(({ key }) => !key)) throw new Error(`A job of the queue ${queue} needs a key.`);
    if (jobs.length === 0) return;
    for (const stored of await table.insert(queue, jobs, clock.now())) enqueueStored(queue, stored);
  }

  return {
    publish: (queue, job) => publishMany(queue, [job]),
    publishMany,
    consume(queue, handler, options) {
      const { dispatcher } = stateOf(queue);
      const ended = dispatcher.consume(handler, options);
      dispatcher.dispatch();
      return ended;
    },
    depth: async (queue) => stateOf(queue).keyQueues.size,
    async purgeKey(queue, sourceId) {
      const { keyQueues } = stateOf(queue);
      const removed = await table.purge(queue, sourceId);
      for (const key of [...keyQueues.keys()]) {
        if (parseOrderingKey(key).sourceId !== sourceId) continue;
        for (const entry of keyQueues.purge(key, ({ seq }) => removed.has(seq))) dropCachedPayload(entry);
      }
    },
    deadLetters: {
      list: async ({ after, limit = 100 } = {}) => table.dead(after, limit),
      get: async (id) => table.deadOne(id),
      count: async () => table.countDead(),
      async redrive(id) {
        const redriven = await table.redrive(id, clock.now());
        if (redriven) enqueueStored(redriven.queue, redriven.job);
        return redriven !== undefined;
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
