import { setTimeout as pause } from 'node:timers/promises';
import type { Channel } from '@wellspring/amqp/channel';
import type { Amqp } from '@wellspring/amqp/client';
import { type Publisher, Unroutable } from '@wellspring/amqp/publisher';
import type { Clock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import { partitionOf } from '@wellspring/core/partitions';
import { Unavailable } from '@wellspring/core/unavailable';
import { withTimeout } from '@wellspring/core/with-timeout';
import type { Ownership } from '@wellspring/redis/ownership';
import type { Store } from '@wellspring/store/port';
import { type JobInput, QUEUES, type Queue, type QueueName } from './port.ts';
import { createDeadLetters } from './rabbitmq-dead-letters.ts';
import { createLine } from './rabbitmq-line.ts';
import { toMessage } from './rabbitmq-message.ts';
import { openPartition } from './rabbitmq-partition.ts';
import { attempts, inbox, layout, purges } from './rabbitmq-rows.ts';

export interface RabbitQueueOptions {
  amqp: Amqp;
  store: Store;
  clock: Clock;
  log: Log;
  /** How the partitions of a queue are shared among processes; its number of partitions is `partitions`. */
  ownershipOf(queue: QueueName): Ownership;
  /** Of each queue; see `assertLayout`. */
  partitions: number;
  /** What names of queues begin with; default `wellspring.`. */
  prefix?: string;
}

const QUEUE = {
  'x-queue-type': 'quorum',
  'x-single-active-consumer': true,
  // None: by default, RabbitMQ 4 drops what was delivered 20 times, such as to processes that were killed.
  'x-delivery-limit': 2 ** 31 - 1,
};
const LOOK_MS = 250;
const DELETED_MS = 1_000;
/** How often partitions are searched for what came late to their inbox. */
const FIND_MS = 30_000;
/** The broker may be restarting, or the platform has just started. */
const DECLARE_TIMEOUT_MS = 10_000;

/**
 * The number of partitions is the same for every process of an installation, and for ever: a key must not change its
 * partition while jobs of it wait. The first process writes it down. @throws Error when it is another one
 */
export async function assertLayout(store: Store, partitions: number): Promise<void> {
  const rows = store.collection(layout);
  await rows.insertMany([{ id: 'layout', partitions }]);
  const found = await rows.get('layout');
  if (found && found.partitions !== partitions) {
    throw new Error(
      `The queues of this installation have ${found.partitions} partitions, not ${partitions}.`,
    );
  }
}

/**
 * Queues as quorum queues `runs.0`, `runs.1`, …: a key has its partition, and a partition one process that has it (see
 * redis/ownership), so that the jobs of a key come in order and to one consumer at a time. A job is durable when the
 * broker has confirmed it. Of jobs that are published together, some may have been taken when that fails.
 * What the broker is no good for is in the store: jobs of keys that are slow, dead letters. The depth leaves out what other processes have in memory.
 */
export function createRabbitQueue(options: RabbitQueueOptions): Queue {
  const { amqp, store, clock, log, ownershipOf, partitions, prefix = 'wellspring.' } = options;
  /** One for each of the broker's queues: while one of them takes nothing, the others do. */
  const publishers = new Map<string, Publisher>();
  function publisherOf(name: string): Publisher {
    let publisher = publishers.get(name);
    if (!publisher) {
      publisher = amqp.openPublisher(name);
      publishers.set(name, publisher);
    }
    return publisher;
  }
  const purgeRows = store.collection(purges);
  const inboxRows = store.collection(inbox);
  const attemptRows = store.collection(attempts);
  const closing = new AbortController();
  const all = Array.from({ length: partitions }, (_, partition) => partition);
  const nameOf = (queue: QueueName, partition: number) => `${queue}.${partition}`;

  async function declare(channel: Channel, name: string): Promise<void> {
    await channel.assertQueue(prefix + name, { durable: true, arguments: QUEUE });
  }
  const declared = Promise.withResolvers<void>();
  let isDeclared = false;
  const topology = amqp.openChannel({
    name: 'queues',
    async setup(channel) {
      for (const queue of QUEUES) {
        for (const partition of all) await declare(channel, nameOf(queue, partition));
      }
    },
    ready() {
      declared.resolve();
      // Who waited for it comes before who need not.
      setImmediate(() => {
        isDeclared = true;
      });
    },
  });

  /** @throws Unavailable when the queues cannot be declared in time */
  async function untilDeclared(): Promise<void> {
    await withTimeout(declared.promise, DECLARE_TIMEOUT_MS, () => {
      throw new Unavailable('RabbitMQ did not declare the queues in time.');
    });
  }

  interface Sent {
    key: string;
    payload: string;
    id?: string;
    purge?: boolean;
  }
  async function send(
    queue: QueueName,
    { key, payload, id = newSecret(), purge = false }: Sent,
  ): Promise<void> {
    const name = nameOf(queue, partitionOf(key, partitions));
    const message = toMessage(prefix + name, { id, key, at: clock.now(), purge, payload });
    const publisher = publisherOf(name);
    const isTaken = () =>
      publisher.publish(message).then(
        () => true,
        (error: unknown) => {
          if (error instanceof Unroutable) return false;
          throw error;
        },
      );
    if (await isTaken()) return;
    // Somebody has deleted the queue, and all that was in it. Its consumer declares it again when it is told so, which
    // it never is when another does within that moment: RabbitMQ takes the old consumer for one of the new queue then,
    // and sends it nothing.
    await pause(DELETED_MS);
    if (await isTaken()) return;
    if (topology.current) await declare(topology.current, name);
    await publisher.publish(message);
  }

  async function publishMany(queue: QueueName, jobs: readonly JobInput[]): Promise<void> {
    if (jobs.some(({ key }) => !key)) throw new Error(`a job on the queue ${queue} needs a key`);
    if (!isDeclared) await untilDeclared();
    await Promise.all(jobs.map((job) => send(queue, job)));
  }
  const publish = (queue: QueueName, job: JobInput) => publishMany(queue, [job]);
  const { bury, ...deadLetters } = createDeadLetters(store, clock, publish);

  const lines = new Map(
    QUEUES.map((queue) => {
      const line = createLine({
        queue,
        clock,
        log,
        ownership: ownershipOf(queue),
        attemptRows,
        partitionOf: (key) => partitionOf(key, partitions),
        open(partition, events) {
          const name = nameOf(queue, partition);
          const known = { amqp, store, clock, log, name, queue: prefix + name };
          return openPartition({ ...known, declare: (channel) => declare(channel, name) }, events);
        },
        bury,
        closing: closing.signal,
      });
      return [queue, line] as const;
    }),
  );

  async function findLate(queue: QueueName): Promise<void> {
    const { held } = lines.get(queue)!;
    const names = [...held.keys()].map((partition) => nameOf(queue, partition));
    if (names.length === 0 || (await inboxRows.count({ partition: { in: names } }, 1)) === 0) return;
    for (const partition of [...held.values()]) await partition.find();
  }

  function every(ms: number, what: string, work: (queue: QueueName) => Promise<void>): void {
    for (const [queue, line] of lines) {
      void (async () => {
        while (!closing.signal.aborted) {
          await clock.sleep(ms, closing.signal);
          if (closing.signal.aborted || !line.isConsumed) continue;
          await work(queue).catch((error: unknown) =>
            log.warn({ queue, what, error: String(error) }, 'queue.look_failed'),
          );
        }
      })();
    }
  }
  every(LOOK_MS, 'slow jobs', async (queue) => lines.get(queue)!.look());
  every(FIND_MS, 'late jobs', findLate);

  return {
    publish,
    publishMany,
    consume: (queue, handler, consumeOptions) => lines.get(queue)!.consume(handler, consumeOptions),
    async depth(queue) {
      if (!isDeclared) await untilDeclared();
      const channel = topology.current;
      if (!channel) throw new Unavailable('RabbitMQ does not answer');
      const names = all.map((partition) => nameOf(queue, partition));
      const [ready, stored] = await Promise.all([
        Promise.all(names.map(async (name) => (await channel.checkQueue(prefix + name)).messageCount)),
        inboxRows.count({ partition: { in: names } }),
      ]);
      let here = 0;
      for (const { jobs } of lines.get(queue)!.held.values()) {
        for (const job of jobs.values()) if (!job.stored) here += 1;
      }
      return ready.reduce((sum, count) => sum + count, stored + here);
    },
    async purgeKey(queue, key) {
      const id = newSecret();
      const partition = nameOf(queue, partitionOf(key, partitions));
      await purgeRows.insert({ id, partition, key });
      await send(queue, { key, payload: '', id, purge: true });
    },
    deadLetters,
    ping: () => amqp.ping(),
    async close() {
      closing.abort();
      await Promise.all([...publishers.values()].map((one) => one.close()));
      await topology.close();
    },
  };
}
