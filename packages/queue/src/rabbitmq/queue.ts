import { setTimeout as pause } from 'node:timers/promises';
import type { Channel } from '@wellspring/amqp/channel';
import type { Amqp } from '@wellspring/amqp/client';
import { type Publisher, Unroutable } from '@wellspring/amqp/publisher';
import type { Clock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import type { Memory } from '@wellspring/core/memory';
import { partitionOf } from '@wellspring/core/partitions';
import { Unavailable } from '@wellspring/core/unavailable';
import { withTimeout } from '@wellspring/core/with-timeout';
import type { Store } from '@wellspring/store/port';
import { type JobInput, QUEUES, type Queue, type QueueName } from '../port.ts';
import { overflow } from './collections.ts';
import { createDeadLetters } from './dead-letters.ts';
import type { Leases } from './leases.ts';
import { toMessage } from './message.ts';
import { createPartitions, type Partitions } from './partitions.ts';

export interface RabbitQueueOptions {
  amqp: Amqp;
  store: Store;
  clock: Clock;
  log: Log;
  /** Assigns the partitions of a queue to processes. */
  leases: Leases;
  memory: Pick<Memory, 'runs' | 'emitted' | 'waiting'>;
  /** Number of partitions of each queue; see installation.ts. */
  partitions: number;
  /** Prefix of queue names; default `wellspring.`. */
  prefix?: string;
}

export interface RabbitQueue extends Queue {
  /** Of the payloads of messages in memory. */
  bytesInMemory(queue: QueueName): number;
}

const QUEUE = {
  'x-queue-type': 'quorum',
  'x-single-active-consumer': true,
  // Unlimited: by default, RabbitMQ 4 drops messages after 20 deliveries, e.g. to killed processes.
  'x-delivery-limit': 2 ** 31 - 1,
};
const REDECLARE_DELAY_MS = 1_000;
/** The broker may be restarting, or the platform has just started. */
const DECLARE_TIMEOUT_MS = 10_000;
const MAX_WAITING_PART = 3 / 4;

/**
 * Each queue is partitioned into quorum queues `runs.0`, `runs.1`, …. A hash of the key selects the partition, and one
 * process owns it (see leases.ts): jobs of a key arrive in order at one consumer. A job is durable when the broker
 * has confirmed it; a failed publishMany may have published some of its jobs.
 * The store holds the overflow and the dead letters. The depth excludes jobs in the memory of other processes.
 */
export function createRabbitQueue(options: RabbitQueueOptions): RabbitQueue {
  const { amqp, store, clock, log, leases, memory, partitions, prefix = 'wellspring.' } = options;
  /** One per broker queue, so that an unavailable queue does not block the others. */
  const publishers = new Map<string, Publisher>();
  function publisherOf(name: string): Publisher {
    let publisher = publishers.get(name);
    if (!publisher) {
      publisher = amqp.openPublisher(name);
      publishers.set(name, publisher);
    }
    return publisher;
  }
  const overflowRows = store.collection(overflow);
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
      // Publications that waited for it stay before later ones.
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

  type Outgoing = JobInput & { redelivered?: true };
  async function send(queue: QueueName, { key, payload, redelivered }: Outgoing): Promise<void> {
    const name = nameOf(queue, partitionOf(key, partitions));
    const job = { id: newSecret(), key, at: clock.now(), payload, redelivered };
    const message = toMessage(prefix + name, job);
    const publisher = publisherOf(name);
    const tryPublish = () =>
      publisher.publish(message).then(
        () => true,
        (error: unknown) => {
          if (error instanceof Unroutable) return false;
          throw error;
        },
      );
    if (await tryPublish()) return;
    // The queue was deleted. Its consumer declares it when RabbitMQ cancels the consumer; declared before that by
    // another client, RabbitMQ neither cancels nor serves the old consumer.
    await pause(REDECLARE_DELAY_MS);
    if (await tryPublish()) return;
    if (topology.current) await declare(topology.current, name);
    await publisher.publish(message);
  }

  async function publishMany(queue: QueueName, jobs: readonly Outgoing[]): Promise<void> {
    if (jobs.some(({ key }) => !key)) throw new Error(`A job of the queue ${queue} needs a key.`);
    if (!isDeclared) await untilDeclared();
    await Promise.all(jobs.map((job) => send(queue, job)));
  }
  const publish = (queue: QueueName, job: JobInput) => publishMany(queue, [job]);
  const redrive = (queue: QueueName, job: JobInput) => publishMany(queue, [{ ...job, redelivered: true }]);
  const { addDeadLetter, ...deadLetters } = createDeadLetters(store, clock, redrive);

  /** Of each queue that this process consumes. The rest is for messages that arrive before a window is narrowed. */
  function maxWaitingBytes(): number {
    const count = consumed.values().reduce((sum, { isConsumed }) => (isConsumed ? sum + 1 : sum), 0);
    return (MAX_WAITING_PART * memory.waiting.total) / Math.max(1, count);
  }

  const consumed: Map<QueueName, Partitions> = new Map(
    QUEUES.map((queue) => [
      queue,
      createPartitions({
        queue,
        amqp,
        store,
        clock,
        log,
        leases,
        addDeadLetter,
        budget: memory[queue],
        maxBytes: maxWaitingBytes,
        partitionOf: (key) => partitionOf(key, partitions),
        brokerQueueOf(partition) {
          const name = nameOf(queue, partition);
          return {
            name,
            queue: prefix + name,
            // A second declaration succeeds before the first has started the queue; a consumer then ends its connection.
            declare: (channel) =>
              untilDeclared()
                .catch(() => {})
                .then(() => declare(channel, name)),
          };
        },
        closing: closing.signal,
      }),
    ]),
  );

  return {
    publish,
    publishMany,
    consume: (queue, handler, consumeOptions) => consumed.get(queue)!.consume(handler, consumeOptions),
    async depth(queue) {
      if (!isDeclared) await untilDeclared();
      const channel = topology.current;
      if (!channel) throw new Unavailable('RabbitMQ does not answer.');
      const names = all.map((partition) => nameOf(queue, partition));
      const [ready, stored] = await Promise.all([
        Promise.all(names.map(async (name) => (await channel.checkQueue(prefix + name)).messageCount)),
        overflowRows.count({ partition: { in: names } }),
      ]);
      const inMemory = consumed.get(queue)!.messages;
      return ready.reduce((sum, count) => sum + count, stored + inMemory);
    },
    bytesInMemory: (queue) => consumed.get(queue)!.bytes,
    deadLetters,
    async ping() {
      await amqp.ping();
      if (!isDeclared) throw new Unavailable('The queues are not declared.');
    },
    async close() {
      closing.abort();
      await Promise.all([...publishers.values()].map((one) => one.close()));
      await topology.close();
    },
  };
}
