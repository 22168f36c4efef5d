import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Memory } from '@wellspring/core/memory';
import type { Database } from '@wellspring/sqlite/database';
import { createDispatcher } from '../dispatcher.ts';
import { type JobInput, QUEUES, type Queue, type QueueName } from '../port.ts';
import { createEmbeddedSource } from './embedded-source.ts';
import { createFinishedJobs } from './finished-jobs.ts';
import { createJobTable } from './job-table.ts';

export interface EmbeddedQueueOptions {
  clock: Clock;
  log: Log;
  memory: Pick<Memory, 'runs' | 'emitted' | 'waiting'>;
}

export interface EmbeddedQueue extends Queue {
  /**
   * Inserts jobs as a part of a write of the same database.
   * @returns a function that must be called when that write is durable, unless it was rejected before
   */
  insert(queue: QueueName, jobs: readonly JobInput[]): () => void;
}

/**
 * Queue on SQLite; see sqlite/database for durability. Jobs whose write was rejected because its fsync failed are handed
 * out when they are durable all the same, as RabbitMQ may hand out a job that it did not confirm.
 */
export function createEmbeddedQueue(
  db: Database,
  { clock, log, memory }: EmbeddedQueueOptions,
): EmbeddedQueue {
  const table = createJobTable(db);
  const closing = new AbortController();
  const finished = createFinishedJobs(db, { clock, log, closing: closing.signal });

  function open(queue: QueueName) {
    const known = { queue, clock, log, closing: closing.signal };
    const source = createEmbeddedSource({ ...known, table, finished, waiting: memory.waiting });
    const dispatcher = createDispatcher({ ...known, source, budget: memory[queue] });
    source.open(dispatcher);
    return { source, dispatcher };
  }
  const opened = new Map(QUEUES.map((queue) => [queue, open(queue)]));
  const of = (queue: QueueName) => opened.get(queue)!;
  db.onRecovered(() => {
    for (const { source } of opened.values()) source.recovered();
  });

  function check(queue: QueueName, jobs: readonly JobInput[]): void {
    if (jobs.some(({ key }) => !key)) throw new Error(`A job of the queue ${queue} needs a key.`);
  }

  async function publishMany(queue: QueueName, jobs: readonly JobInput[]): Promise<void> {
    check(queue, jobs);
    if (jobs.length > 0) of(queue).source.stored(await table.insert(queue, jobs, clock.now()));
  }

  return {
    publish: (queue, job) => publishMany(queue, [job]),
    publishMany,
    insert(queue, jobs) {
      check(queue, jobs);
      const now = clock.now();
      const stored = jobs.map((job) => table.insertNow(queue, job, now));
      return () => {
        if (stored.length > 0) of(queue).source.stored(stored);
      };
    },
    consume: (queue, handler, options) => of(queue).dispatcher.consume(handler, options),
    depth: async (queue) => of(queue).source.size,
    deadLetters: {
      list: async ({ after, limit = 100 } = {}) => table.dead(after, limit),
      count: async () => table.countDead(),
      async redrive(id) {
        const redriven = await table.redrive(id, clock.now());
        if (redriven) of(redriven.queue).source.stored([redriven.job], true);
        return redriven !== undefined;
      },
      drop: (id) => table.dropDead(id),
    },
    async ping() {
      db.statement('SELECT 1').get();
    },
    async close() {
      closing.abort();
      await finished.removed();
    },
  };
}
