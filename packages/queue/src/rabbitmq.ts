import type { Amqp } from '@wellspring/amqp/client';
import type { Clock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import { partitionOf } from '@wellspring/core/rendezvous';
import type { Ownership } from '@wellspring/redis/ownership';
import type { Store } from '@wellspring/store/port';
import { createLanes, type Lane } from './lanes.ts';
import {
  type ConsumeOptions,
  type Handler,
  type Job,
  type JobInput,
  MAX_ATTEMPTS,
  type PoisonJob,
  QUEUES,
  type Queue,
  type QueueName,
} from './port.ts';
import { createDeadLetters } from './rabbitmq-dead-letters.ts';
import { type Arrived, type JobHeaders, openPartition, type Partition } from './rabbitmq-partition.ts';
import { attempts, delayed, inbox, purges } from './rabbitmq-rows.ts';

export interface RabbitQueueOptions {
  amqp: Amqp;
  store: Store;
  clock: Clock;
  log: Log;
  /** How the partitions of a queue are shared among processes; its number of partitions is `partitions`. */
  ownershipOf(queue: QueueName): Ownership;
  /** Of each queue; the same for every process of an installation, for ever. */
  partitions: number;
  /** What names of queues begin with; default `wellspring.`. */
  prefix?: string;
}

const FIRST_BACKOFF_MS = 100;
const LONGEST_BACKOFF_MS = 30_000;
const TICK_MS = 250;
/** From the taking of a partition to the first job, so that no key of it has a head start. */
const SETTLE_MS = 20;
/** Whoever publishes a delayed job has so long for it before another does. */
const PUBLISHING_MS = 60_000;
const DUE_AT_ONCE = 200;
/** For topology that is not there yet: the broker is about to come back, or the platform has just started. */
const DECLARED_MS = 10_000;

interface Consumer {
  handler: Handler;
  options: ConsumeOptions;
  running: number;
  gone(): void;
}

/**
 * Queues as quorum queues `runs.0`, `runs.1`, …: a key has its partition, and a partition one process that has it (see
 * redis/ownership), so that the jobs of a key come in order and to one consumer at a time. A job is durable when the
 * broker has confirmed it. Of jobs that are published together, those before one that failed may have been taken.
 * What the broker is no good for is in the store: jobs that wait for long, jobs whose time has not come, dead letters.
 */
export function createRabbitQueue(options: RabbitQueueOptions): Queue {
  const { amqp, store, clock, log, ownershipOf, partitions, prefix = 'wellspring.' } = options;
  const publisher = amqp.openPublisher('queue');
  const delayedRows = store.collection(delayed);
  const purgeRows = store.collection(purges);
  const inboxRows = store.collection(inbox);
  const attemptRows = store.collection(attempts);
  const closing = new AbortController();
  const all = Array.from({ length: partitions }, (_, partition) => partition);
  const nameOf = (queue: QueueName, partition: number) => `${queue}.${partition}`;

  const declared = Promise.withResolvers<void>();
  const topology = amqp.openChannel({
    name: 'queues',
    async setup(channel) {
      for (const queue of QUEUES) {
        for (const partition of all) {
          await channel.assertQueue(prefix + nameOf(queue, partition), {
            durable: true,
            arguments: { 'x-queue-type': 'quorum', 'x-single-active-consumer': true },
          });
        }
      }
      declared.resolve();
    },
  });

  async function send(queue: QueueName, key: string, payload: string, purgeId?: string): Promise<void> {
    await publisher.publish({
      routingKey: prefix + nameOf(queue, partitionOf(key, partitions)),
      content: Buffer.from(payload),
      options: {
        persistent: true,
        mandatory: true,
        messageId: purgeId ?? newSecret(),
        headers: { key, at: clock.now(), ...(purgeId !== undefined && { purge: true }) } satisfies JobHeaders,
      },
    });
  }

  async function publishMany(queue: QueueName, jobs: readonly JobInput[]): Promise<void> {
    if (jobs.some(({ key }) => !key)) throw new Error(`a job on the queue ${queue} needs a key`);
    const now = clock.now();
    const isLater = ({ notBefore }: JobInput) => (notBefore ?? 0) > now;
    const later = jobs.filter(isLater);
    const sent = jobs.filter((job) => !isLater(job)).map(({ key, payload }) => send(queue, key, payload));
    const rows = later.map(({ key, payload, notBefore }) => ({
      id: newSecret(),
      queue,
      key,
      payload,
      due_at: notBefore!,
    }));
    await Promise.all([...sent, rows.length > 0 ? delayedRows.insertMany(rows) : undefined]);
  }
  let lastDead = 0;
  /** Rises with time, so that the newest come first. */
  function nextDeadId(): string {
    lastDead = Math.max(lastDead + 1, clock.now() * 1_000);
    return `${String(lastDead).padStart(17, '0')}-${newSecret().slice(0, 8)}`;
  }
  const publish = (queue: QueueName, job: JobInput) => publishMany(queue, [job]);
  const deadLetters = createDeadLetters(store, publish);

  const lines = new Map(QUEUES.map((queue) => [queue, createLine(queue)] as const));

  /** What this process does for one queue. */
  function createLine(queue: QueueName) {
    const lanes = createLanes<Arrived>();
    const held = new Map<number, Partition>();
    const consumers = new Set<Consumer>();
    let sharing: { stop: AbortController; ended: Promise<void> } | undefined;

    /** performance.now() from which jobs are handed out: those of partitions taken together come together. */
    let settledAt = 0;

    const partitionFor = (key: string) => held.get(partitionOf(key, partitions));

    function leastBusy(): Consumer | undefined {
      let found: Consumer | undefined;
      for (const one of consumers) {
        if (one.options.signal.aborted || one.running >= one.options.concurrency) continue;
        if (!found || one.running < found.running) found = one;
      }
      return found;
    }

    let planned = false;
    /** At the end of the turn: what arrives together goes out together. */
    function plan(): void {
      if (planned) return;
      planned = true;
      const settling = settledAt - performance.now();
      const run = () => {
        planned = false;
        if (performance.now() < settledAt) plan();
        else dispatch();
      };
      if (settling > 0) setTimeout(run, settling);
      else setImmediate(run);
    }

    function dispatch(): void {
      while (!closing.signal.aborted) {
        const consumer = leastBusy();
        const taken = consumer && lanes.take(consumer.options.batch ?? 1);
        if (!taken) return;
        consumer.running += 1;
        for (const job of taken.entries) job.out = true;
        void handOut(consumer, taken.lane, taken.entries);
      }
    }

    const toJob = ({ id, key, payload, attempts: failures, publishedAt }: Arrived): Job => ({
      id,
      key,
      payload: payload!,
      attempt: failures + 1,
      published_at: publishedAt,
    });

    async function handOut(consumer: Consumer, lane: Lane<Arrived>, jobs: Arrived[]): Promise<void> {
      const [first, ...others] = jobs as [Arrived, ...Arrived[]];
      // The partition that it came from: what has it later is not concerned.
      const partition = partitionFor(first.key);
      let rest = 0;
      try {
        await consumer.handler([toJob(first), ...others.map(toJob)]);
        for (const job of jobs) job.out = false;
        lanes.settle(jobs.length);
        partition?.done(jobs);
      } catch (error) {
        rest = await failed(partition, lane, jobs, error);
      }
      consumer.running -= 1;
      settleConsumer(consumer);
      if (rest > 0) await clock.sleep(rest, closing.signal);
      lanes.release(lane);
      dispatch();
    }

    /** Gives the jobs back, except one that is dead now. Gives the ms for which the lane rests. */
    async function failed(
      partition: Partition | undefined,
      lane: Lane<Arrived>,
      jobs: Arrived[],
      error: unknown,
    ): Promise<number> {
      const reason = String(error);
      const [first] = jobs as [Arrived, ...Arrived[]];
      // By name: an error may come from another realm or another copy of the module.
      const { name, jobId } = error as Partial<PoisonJob>;
      const poisoned = name === 'PoisonJob' ? jobs.find(({ id }) => id === jobId) : undefined;
      const dead = poisoned ?? (first.attempts + 1 >= MAX_ATTEMPTS ? first : undefined);
      const fields = { queue, key: first.key, job: (dead ?? first).id, reason };
      let left = jobs;
      let rest = 0;
      try {
        if (dead) {
          const { key, payload, attempts: failures } = dead;
          await deadLetters.bury({
            // Newest first by id.
            id: nextDeadId(),
            queue,
            key,
            payload: payload!,
            reason,
            attempts: failures + 1,
            died_at: clock.now(),
          });
          log.error(fields, 'queue.job_dead');
          left = jobs.filter((job) => job !== dead);
          lanes.settle(1);
        } else {
          log.warn({ ...fields, attempt: first.attempts + 1 }, 'queue.job_failed');
          await attemptRows.increment(first.id, { attempts: 1 }, { id: first.id, attempts: 1 });
          first.attempts += 1;
        }
      } catch (writeError) {
        // The store does not answer, which is no fault of the jobs: they stay what they are, and their lane waits.
        first.uncounted = (first.uncounted ?? 0) + 1;
        log.error({ queue, error: String(writeError) }, 'queue.write_failed');
      }
      if (left === jobs) {
        const failures = first.attempts + (first.uncounted ?? 0);
        rest = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** Math.max(0, failures - 1));
      }
      for (const job of jobs) job.out = false;
      // Those whose channel is gone come again by themselves, and so do those of a partition that is let go of.
      const stay = left.filter((job) => partition?.jobs.get(job.id) === job && (job.stored || job.delivery));
      for (const job of left) if (!stay.includes(job)) partition?.jobs.delete(job.id);
      lanes.settle(left.length - stay.length);
      lanes.giveBack(lane, stay);
      partition?.done(left === jobs ? [] : [dead!]);
      return rest;
    }

    function take(partition: number): void {
      const name = nameOf(queue, partition);
      settledAt = performance.now() + SETTLE_MS;
      held.set(
        partition,
        openPartition(
          { amqp, store, clock, log, queue: prefix + name, name },
          {
            admit(job) {
              lanes.add(job);
              plan();
            },
            drop(key, chosen) {
              const names = [...lanes.names()].filter(
                (one) => key === undefined || one === key || one.startsWith(`${key}#`),
              );
              return names.flatMap((one) => lanes.purge(one, chosen));
            },
          },
        ),
      );
    }

    async function release(partition: number): Promise<void> {
      const one = held.get(partition);
      await one?.release();
      if (held.get(partition) === one) held.delete(partition);
    }

    /** An aborted consumer is gone when nothing of its work is left; with the last one the partitions go. */
    function settleConsumer(consumer: Consumer): void {
      if (!consumer.options.signal.aborted || consumer.running > 0) return;
      if (!consumers.delete(consumer)) return;
      consumer.gone();
      if (consumers.size === 0) sharing?.stop.abort();
    }

    async function tick(): Promise<void> {
      for (const partition of held.values()) void partition.spill();
      if (consumers.size === 0) return;
      const now = clock.now();
      const due = await delayedRows.claim(
        { where: { queue, due_at: { lte: now } }, orderBy: 'due_at', order: 'asc', limit: DUE_AT_ONCE },
        { due_at: now + PUBLISHING_MS },
      );
      for (const { id, key, payload } of due) {
        await send(queue, key, payload);
        await delayedRows.remove(id);
      }
    }
    void (async () => {
      while (!closing.signal.aborted) {
        await clock.sleep(TICK_MS, closing.signal);
        await tick().catch((error: unknown) =>
          log.warn({ queue, error: String(error) }, 'queue.tick_failed'),
        );
      }
    })();

    return {
      here: () => [...held.values()].reduce((sum, { jobs }) => sum + jobs.size, 0),
      stored: () =>
        [...held.values()].reduce(
          (sum, { jobs }) => sum + [...jobs.values()].filter((job) => job.stored).length,
          0,
        ),
      async consume(handler: Handler, consumeOptions: ConsumeOptions): Promise<void> {
        const { signal } = consumeOptions;
        if (signal.aborted) return;
        // The partitions of the consumers before are let go of first.
        while (sharing?.stop.signal.aborted) await sharing.ended;
        if (signal.aborted) return;
        const gone = Promise.withResolvers<void>();
        const consumer: Consumer = { handler, options: consumeOptions, running: 0, gone: gone.resolve };
        consumers.add(consumer);
        if (!sharing) {
          const stop = new AbortController();
          const ended = ownershipOf(queue)
            .run({ take, release }, stop.signal)
            .finally(() => {
              sharing = undefined;
            });
          sharing = { stop, ended };
        }
        const current = sharing;
        signal.addEventListener('abort', () => settleConsumer(consumer), { once: true });
        plan();
        await gone.promise;
        if (current.stop.signal.aborted) await current.ended;
      },
    };
  }

  return {
    async publish(queue, job) {
      await before(declared.promise);
      await publish(queue, job);
    },
    async publishMany(queue, jobs) {
      await before(declared.promise);
      await publishMany(queue, jobs);
    },
    consume: (queue, handler, consumeOptions) => lines.get(queue)!.consume(handler, consumeOptions),
    async depth(queue) {
      const channel = topology.current;
      let ready = 0;
      for (const partition of all) {
        ready += (await channel?.checkQueue(prefix + nameOf(queue, partition)))?.messageCount ?? 0;
      }
      const line = lines.get(queue)!;
      const [later, stored] = await Promise.all([
        delayedRows.count({ queue }),
        inboxRows.count({ partition: { in: all.map((partition) => nameOf(queue, partition)) } }),
      ]);
      return ready + later + stored + line.here() - line.stored();
    },
    async purgeKey(queue, key) {
      await delayedRows.removeWhere({ queue, key });
      await delayedRows.removeWhere({ queue, key: { gte: `${key}#`, lt: `${key}$` } });
      const id = newSecret();
      const partition = nameOf(queue, partitionOf(key, partitions));
      await purgeRows.insert({ id, partition, key });
      await send(queue, key, '', id);
    },
    deadLetters,
    ping: () => amqp.ping(),
    async close() {
      closing.abort();
      await publisher.close();
      await topology.close();
    },
  };

  /** @throws Error when the queues cannot be declared in time */
  async function before(ready: Promise<void>): Promise<void> {
    let late: NodeJS.Timeout | undefined;
    const limit = new Promise<never>((_, reject) => {
      late = setTimeout(() => reject(new Error('RabbitMQ has no queues yet')), DECLARED_MS);
    });
    await Promise.race([ready, limit]).finally(() => clearTimeout(late));
  }
}
