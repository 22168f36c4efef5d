import {
  ack,
  type Channel,
  type ConsumeMessage,
  consume,
  type RecoveringChannel,
} from '@wellspring/amqp/channel';
import type { Amqp } from '@wellspring/amqp/client';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { createLru } from '@wellspring/core/lru';
import { parseOrderingKey } from '@wellspring/core/ordering-key';
import type { Store } from '@wellspring/store/port';
import { MAX_BATCH_BYTES } from '../job-dispatcher.ts';
import { attempts, purges } from './collections.ts';
import { createArrivals, failuresOf } from './failed-attempts.ts';
import { acknowledge, createJobsInMemory } from './jobs-in-memory.ts';
import { fromMessage, type JobMessage } from './message.ts';
import { createOverflow } from './overflow.ts';
import type { Partition, PartitionEvents } from './partition-interface.ts';
import { PREFETCH, type ReceivedJob, slowJobsByKey } from './received-job.ts';
import { createStoreAccess } from './store-access.ts';

export interface PartitionOptions {
  amqp: Amqp;
  store: Store;
  clock: Clock;
  log: Log;
  /** Name of the broker's queue. */
  queue: string;
  declare(channel: Channel): Promise<void>;
  /** Name in rows, e.g. `runs.7`. */
  name: string;
  epoch: number;
  /** False while the lease is not certain: the store is neither read nor written. */
  mayStart(): boolean;
}

/** For keys in overflow. */
const MAX_IN_MEMORY_PER_KEY = 256;
const MAX_IN_MEMORY_UNDER_PRESSURE = 16;
/** Remembered ids of finished jobs, whose acknowledgements may have been lost. */
const MAX_FINISHED_IDS = 16 * PREFETCH;

const belongsTo = (key: string, sourceId: string) => parseOrderingKey(key).sourceId === sourceId;

/**
 * One partition from its taking to its end:
 *
 * - *opening*: reads unfinished purges and the keys that overflow;
 * - *consuming*: the broker sends a window of messages. Whenever the channel is lost, or reopened with another window,
 *   jobs that wait are dropped, since the broker sends them again; jobs that are out, and rows, stay;
 * - *releasing*: nothing is started any more; ends when no job is out and everything is written, then closes the channel;
 * - *lost*: the lease has ended; everything is dropped at once, and nothing is written any more.
 *
 * A job in memory has a message (`delivery`), or is a row of the overflow (`stored`). Jobs of a slow key become rows, all of
 * them and in order; from then on its messages are appended behind them, until all rows are in memory again.
 */
export function openPartition(
  { amqp, store, clock, log, queue, declare, name, epoch, mayStart }: PartitionOptions,
  { opened, enqueue, drop, isUnderMemoryPressure, maxBytes, admissionSince }: PartitionEvents,
): Partition {
  const attemptRows = store.collection(attempts);
  const purgeRows = store.collection(purges);
  const memory = createJobsInMemory();
  const { jobs, remove } = memory;
  const finished = createLru<true>(MAX_FINISHED_IDS);
  /** Ids of first deliveries that were lost with their channel before they were handed out. */
  let firstDeliveries = new Set<string>();
  /** Source ids of unfinished purges, by id of the purge message. */
  const purging = new Map<string, string>();
  const closing = new AbortController();
  let channel: Channel | undefined;
  let consumer: RecoveringChannel | undefined;
  let idle: (() => void) | undefined;
  let isReleasing = false;

  const { persist, write, written } = createStoreAccess({
    clock,
    log,
    name,
    mayStart,
    closing: closing.signal,
  });
  let prefetch = PREFETCH;
  /** So many jobs of their usual size fit into the bytes. */
  const countIn = (bytes: number, most: number) =>
    Math.max(1, Math.min(most, Math.floor(bytes / Math.max(1, memory.usualBytes))));
  const maxInMemory = () =>
    countIn(MAX_BATCH_BYTES, isUnderMemoryPressure() ? MAX_IN_MEMORY_UNDER_PRESSURE : MAX_IN_MEMORY_PER_KEY);
  const isInMemory = (id: string) => jobs.has(id);
  const overflow = createOverflow(
    { store, name, epoch, persist, maxInMemory },
    {
      countInMemory: memory.countOf,
      isKnown: (id) => isInMemory(id) || finished.has(id),
      isInMemory,
      loaded({ published_at: at, ...row }, failures) {
        if (!isReleasing) enqueue(memory.add({ ...row, at }, failures, undefined));
      },
    },
  );

  const isPurging = (key: string) => [...purging.values()].some((sourceId) => belongsTo(key, sourceId));

  const arrivals = createArrivals({
    isInMemory,
    load: (ids) => persist('load attempts', () => failuresOf(attemptRows, ids)),
    arrive,
    closing: closing.signal,
  });

  function arrive(from: Channel, message: ConsumeMessage, failures: Map<string, number>): void {
    // The message of a lost channel is redelivered, here or to another process.
    if (from !== channel || isReleasing) return;
    let job: JobMessage;
    try {
      job = fromMessage(message);
    } catch (error) {
      log.error({ partition: name, error: String(error) }, 'queue.foreign_message');
      ack(from, message);
      return;
    }
    const { id, key } = job;
    if (firstDeliveries.delete(id)) job.redelivered = undefined;
    if (job.purge) {
      purged(key, id);
      ack(from, message);
      return;
    }
    const known = jobs.get(id);
    if (known?.stored || (!known && finished.has(id)) || isPurging(key)) {
      ack(from, message);
    } else if (known) {
      // A duplicate on the same channel. After a channel was replaced, the former delivery is void.
      if (known.delivery?.channel === from) known.duplicates.push(known.delivery);
      known.delivery = { channel: from, message };
    } else if (overflow.isOverflowing(key)) {
      const slow = { id, key, payload: job.payload, publishedAt: job.at, redelivered: job.redelivered };
      void overflow.append([slow]).then((seqs) => {
        if (seqs) ack(from, message);
        overflow.refill(key);
      });
    } else {
      enqueue(memory.add(job, failures.get(id) ?? 0, { channel: from, message }));
    }
  }

  function purged(sourceId: string, id: string): void {
    const isSelected = (key: string) => belongsTo(key, sourceId);
    done(drop(isSelected, (job) => !job.out));
    overflow.purge(isSelected);
    purging.delete(id);
    write('finish purge', () => purgeRows.remove(id));
  }

  function done(gone: readonly ReceivedJob[]): void {
    const rows: string[] = [];
    const failed: string[] = [];
    for (const job of gone) {
      remove(job);
      job.isDone = true;
      finished.set(job.id, true);
      if (job.attempts > 0) failed.push(job.id);
      if (!job.delivery && job.stored) rows.push(job.id);
      acknowledge(job);
    }
    if (rows.length > 0) write('remove finished jobs', () => overflow.remove(rows));
    if (failed.length > 0) write('remove attempts', () => attemptRows.removeWhere({ id: { in: failed } }));
    for (const key of new Set(gone.map((job) => job.key))) overflow.refill(key);
    if (idle && ![...jobs.values()].some(({ out }) => out)) idle();
  }

  async function start(): Promise<true> {
    purging.clear();
    const unfinished = await purgeRows.list({ where: { partition: name }, limit: 1_000 });
    for (const { id, key } of unfinished) purging.set(id, key);
    await overflow.find();
    overflow.purge(isPurging);
    return true;
  }

  const opening = persist('open partition', start).then((started) => {
    if (!started) return;
    consumer = amqp.openChannel({
      name: queue,
      reopenOnNodeChange: true,
      async setup(made) {
        await declare(made);
        prefetch = countIn(maxBytes(), PREFETCH);
        await made.prefetch(prefetch);
        channel = made;
        await consume(made, queue, (message) => arrivals.onMessage(made, message));
        opened();
      },
      lost() {
        channel = undefined;
        arrivals.clear();
        // The broker redelivers waiting jobs in the same order; jobs that are out continue.
        const isLost = (job: ReceivedJob) => jobs.get(job.id) === job && !job.stored && !job.out;
        const dropped = drop(() => true, isLost);
        for (const job of dropped) remove(job);
        firstDeliveries = new Set(dropped.filter((job) => !job.redelivered).map((job) => job.id));
        for (const job of jobs.values()) Object.assign(job, { delivery: undefined, duplicates: [] });
      },
    });
  });

  async function moveToOverflow(key: string, chosen: readonly ReceivedJob[]): Promise<void> {
    const seqs = await overflow.append(chosen);
    if (!seqs) return;
    const late: string[] = [];
    let [kept, last] = [0, 0];
    const tail = new Set<ReceivedJob>();
    for (const [i, job] of chosen.entries()) {
      if (job.isDone) late.push(job.id);
      // Lost with its channel: it is in the overflow, and its redelivery is a duplicate.
      if (jobs.get(job.id) !== job) continue;
      job.stored = true;
      acknowledge(job);
      if (job.out || (tail.size === 0 && kept < maxInMemory())) {
        kept += 1;
        last = seqs[i]!;
      } else tail.add(job);
    }
    overflow.loadedUpTo(key, last, late.length === 0);
    const isTail = (one: ReceivedJob) => tail.has(one);
    for (const job of drop((one) => one === key, isTail)) remove(job);
    if (late.length > 0) write('remove finished jobs', () => overflow.remove(late));
    overflow.refill(key);
  }

  /** Removes the jobs from memory that are not out. */
  function dropWaiting(): void {
    const isWaiting = (one: ReceivedJob) => jobs.get(one.id) === one && !one.out;
    for (const job of drop(() => true, isWaiting)) remove(job);
  }

  return {
    jobs,
    epoch,
    get isReleasing() {
      return isReleasing;
    },
    get bytes() {
      return memory.bytes;
    },
    done,
    forget: (gone) => gone.forEach(remove),
    spill() {
      if (!channel || isReleasing) return;
      // Smaller jobs than before.
      if (countIn(maxBytes(), PREFETCH) >= 4 * prefetch) consumer?.reopen();
      for (const [key, chosen] of slowJobsByKey(jobs.values(), {
        prefetch,
        isUnderMemoryPressure: isUnderMemoryPressure(),
        admissionSince,
      })) {
        if (!overflow.isOverflowing(key)) void moveToOverflow(key, chosen);
      }
    },
    narrow() {
      if (channel && countIn(maxBytes(), PREFETCH) < prefetch) consumer?.reopen();
    },
    async findOverflow() {
      await opening;
      if (!isReleasing) await overflow.find();
    },
    async release() {
      isReleasing = true;
      const isOut = () => [...jobs.values()].some((job) => job.out);
      dropWaiting();
      if (isOut()) {
        await new Promise<void>((resolve) => {
          idle = resolve;
        });
      }
      await Promise.all([written(), overflow.settled()]);
      closing.abort();
      await opening;
      await consumer?.close();
      jobs.clear();
    },
    lose() {
      isReleasing = true;
      closing.abort();
      dropWaiting();
      jobs.clear();
      idle?.();
      void opening.then(() => consumer?.close());
    },
  };
}
