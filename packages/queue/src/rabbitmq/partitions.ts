import { setTimeout as pause } from 'node:timers/promises';
import type { ByteBudget } from '@wellspring/core/byte-budget';
import { maxMinShare } from '@wellspring/core/max-min-share';
import { withTimeout } from '@wellspring/core/with-timeout';
import { createDispatcher } from '../dispatcher.ts';
import type { JobSource } from '../job-source.ts';
import { type ConsumeOptions, type Handler, LeaseLost, type QueueName } from '../port.ts';
import { attempts, overflow } from './collections.ts';
import type { NewDeadLetter } from './dead-letters.ts';
import type { Leases } from './leases.ts';
import { openPartition } from './partition.ts';
import type { Partition, PartitionOptions } from './partition-port.ts';
import { PREFETCH, type ReceivedJob } from './received-job.ts';

export interface PartitionsOptions extends Pick<PartitionOptions, 'amqp' | 'store' | 'clock' | 'log'> {
  queue: QueueName;
  leases: Leases;
  /** Of the jobs that are out. */
  budget: ByteBudget;
  /** For the payloads of messages in memory now; beyond, windows are narrowed and jobs move to the overflow. */
  maxBytes(): number;
  partitionOf(key: string): number;
  /** The broker's queue of a partition. */
  brokerQueueOf(partition: number): Pick<PartitionOptions, 'name' | 'queue' | 'declare'>;
  addDeadLetter(dead: NewDeadLetter): Promise<void>;
  closing: AbortSignal;
}

/** The partitions of one queue that this process owns: takes and releases them, and hands out their jobs. */
export interface Partitions {
  /** A consumer exists, or its partitions are being released. */
  readonly isConsumed: boolean;
  /** Messages in memory. */
  readonly messages: number;
  /** Of their payloads. */
  readonly bytes: number;
  consume(handler: Handler, options: ConsumeOptions): Promise<void>;
}

/** Delay between the first messages of the acquired partitions and the first job, so that keys start evenly. */
const SETTLE_DELAY_MS = 20;
/** A partition that opens later is not waited for. */
const MAX_OPENING_MS = 200;
const FIND_OVERFLOW_INTERVAL_MS = 30_000;

export function createPartitions(options: PartitionsOptions): Partitions {
  const { queue, store, clock, log, leases, maxBytes, partitionOf, brokerQueueOf, closing } = options;
  const attemptRows = store.collection(attempts);
  const overflowRows = store.collection(overflow);
  const owned = new Map<number, Partition>();
  let settled: Promise<unknown> = Promise.resolve();
  /** Resolves when the partitions of the consumer have been released. */
  let sharing: Promise<void> | undefined;

  const sum = (read: (partition: Partition) => number) =>
    owned.values().reduce((total, partition) => total + read(partition), 0);
  const memory = {
    get usage() {
      const bytes = sum(({ received }) => received.bytes);
      if (bytes > maxBytes()) return 'exceeded';
      return bytes > maxBytes() / 2 ? 'high' : 'low';
    },
    get share() {
      const demands = owned.values().map(({ received }) => received.usualBytes * PREFETCH);
      return maxMinShare(maxBytes(), demands);
    },
  } as const;

  /** The partition that received the jobs; undefined if the lease was lost, and they are redelivered. */
  function homeOf([first]: readonly ReceivedJob[]): Partition | undefined {
    const partition = first && owned.get(partitionOf(first.key));
    return partition?.epoch === first?.epoch ? partition : undefined;
  }

  const source: JobSource<ReceivedJob> = {
    async start(jobs) {
      const outSince = performance.now();
      for (const job of jobs) job.outSince = outSince;
      await settled;
      return (await homeOf(jobs)?.start(jobs)) ?? [];
    },
    leaseOf(jobs) {
      const home = homeOf(jobs);
      return () => home?.isHeld(jobs[0]!.key) === true;
    },
    taken: (key) => owned.get(partitionOf(key))?.refill(key),
    done: (jobs) => homeOf(jobs)?.done(jobs),
    giveBack(jobs, error) {
      if (homeOf(jobs) && error instanceof LeaseLost) leases.forfeit(queue, partitionOf(jobs[0]!.key));
      return homeOf(jobs)?.giveBack(jobs) ?? [];
    },
    async countAttempt({ id }) {
      await attemptRows.increment(id, { attempts: 1 }, { id, attempts: 0 });
    },
    async addDeadLetter(job, reason) {
      const { id, key, payload, attempts: failures } = job;
      await options.addDeadLetter({ job: id, queue, key, payload: payload!, reason, attempts: failures + 1 });
      homeOf([job])?.done([job]);
    },
  };
  const dispatcher = createDispatcher({ ...options, source });

  const handlers = {
    take(partition: number, epoch: number): void {
      owned.get(partition)?.lose();
      const mayStart = () => leases.mayStart;
      const lease = { epoch, mayStart, ...brokerQueueOf(partition) };
      const one = openPartition({ ...options, ...lease, dispatcher, memory });
      owned.set(partition, one);
      const isOpen = withTimeout(one.opened, MAX_OPENING_MS);
      settled = Promise.all([settled, isOpen.then(() => pause(SETTLE_DELAY_MS))]);
    },
    async release(partition: number, urgent: AbortSignal): Promise<void> {
      const one = owned.get(partition);
      await one?.release(urgent);
      if (owned.get(partition) === one) owned.delete(partition);
    },
    lost(partition: number): void {
      const one = owned.get(partition);
      owned.delete(partition);
      one?.lose();
    },
  };

  async function findOverflow(): Promise<void> {
    const names = [...owned.keys()].map((partition) => brokerQueueOf(partition).name);
    if (names.length === 0 || (await overflowRows.count({ partition: { in: names } }, 1)) === 0) return;
    for (const partition of [...owned.values()]) await partition.findOverflow();
  }
  async function keepFindingOverflow(until: AbortSignal): Promise<void> {
    for (;;) {
      await clock.sleep(FIND_OVERFLOW_INTERVAL_MS, until);
      if (until.aborted) return;
      await findOverflow().catch((error: unknown) =>
        log.warn({ queue, error: String(error) }, 'queue.maintenance_failed'),
      );
    }
  }

  return {
    get isConsumed() {
      return sharing !== undefined;
    },
    get messages() {
      return sum(({ received }) => received.messages);
    },
    get bytes() {
      return sum(({ received }) => received.bytes);
    },
    async consume(handler, consumeOptions) {
      if (consumeOptions.signal.aborted) return;
      if (sharing) throw new Error(`The queue ${queue} already has a consumer.`);
      const left = new AbortController();
      // Partitions without running jobs are released at once, not after those of others.
      sharing = leases.join(queue, handlers, consumeOptions.signal).finally(() => {
        sharing = undefined;
        left.abort();
      });
      void keepFindingOverflow(AbortSignal.any([closing, left.signal]));
      await dispatcher.consume(handler, consumeOptions);
      await sharing;
    },
  };
}
