import {
  ack,
  type Channel,
  type ConsumeMessage,
  consume,
  type RecoveringChannel,
} from '@wellspring/amqp/channel';
import { createLru } from '@wellspring/core/lru';
import { attempts } from './collections.ts';
import { createDraining } from './draining.ts';
import { createHandOut } from './hand-out.ts';
import { fromMessage, type JobMessage } from './message.ts';
import { createOverflow, type OverflowJob } from './overflow.ts';
import type { Partition, PartitionOptions } from './partition-port.ts';
import {
  acknowledge,
  type Delivery,
  type MessageJob,
  PREFETCH,
  type ReceivedJob,
  receivedJob,
  slowJobsByKey,
} from './received-job.ts';
import { createReceivedJobs } from './received-jobs.ts';
import { createStoreAccess } from './store-access.ts';

/** Remembered ids of finished jobs, whose acknowledgements may have been lost. */
const MAX_FINISHED_IDS = 16 * PREFETCH;
const SPILL_INTERVAL_MS = 250;

/**
 * One partition from its taking to its end:
 *
 * - *opening*: reads the keys that overflow;
 * - *consuming*: the broker sends a window of messages. Whenever the channel is lost, or reopened with another window,
 *   jobs that wait are dropped, since the broker sends them again; jobs that are out, and rows, stay;
 * - *draining*: keys with long-running jobs start nothing any more, nor the rest of a batch; others do (see draining.ts);
 * - *releasing*: nothing is started any more; ends when no job is out and everything is written, then closes the channel;
 * - *ended*: released; or the lease was lost: everything is dropped at once, and nothing is written any more.
 *
 * A job in memory is a message to be acknowledged, or a row of the overflow, which has a `seq`. When a key is slow, all
 * its jobs become rows, in order. Its further messages become rows, too, until every row was handed out.
 */
export function openPartition(options: PartitionOptions): Partition {
  const { amqp, store, clock, log, dispatcher, memory, queue, name, epoch, mayStart } = options;
  const attemptRows = store.collection(attempts);
  let isServing = true;
  const received = createReceivedJobs(dispatcher);
  const { jobs, remove, drop } = received;
  const draining = createDraining(dispatcher, received, clock);
  const opened = Promise.withResolvers<void>();
  /** 'failed': it was out and is no longer in memory. */
  const outcomes = createLru<'done' | 'failed'>(MAX_FINISHED_IDS);
  /** Ids of first deliveries that were lost with their channel before they were handed out. */
  let firstDeliveries = new Set<string>();
  /** Messages that are becoming rows, by id. */
  const appending = new Map<string, Delivery[]>();
  const closing = new AbortController();
  let channel: Channel | undefined;
  let consumer: RecoveringChannel | undefined;
  let prefetch = PREFETCH;
  let isSpilling = false;

  function add(job: ReceivedJob): void {
    draining.onJob(job.key);
    received.add(job);
  }

  const access = createStoreAccess({ clock, log, name, mayStart, closing: closing.signal });
  const { persist, write } = access;
  const overflow = createOverflow({
    store,
    name,
    epoch,
    access,
    jobs,
    outcomeOf: ({ id }) => outcomes.get(id),
    waiting: dispatcher.waiting,
    offer: add,
  });

  const handOut = createHandOut({ store, epoch, overflow, persist });

  /** Number of messages of the usual size that fit into the memory share. */
  const window = () => Math.max(1, Math.min(PREFETCH, Math.floor(memory.share / received.usualBytes)));

  function receive(from: Channel, message: ConsumeMessage): void {
    // The message of a lost channel is redelivered, here or to another process.
    if (from !== channel || !isServing) return;
    let job: JobMessage;
    try {
      job = fromMessage(message);
    } catch (error) {
      log.error({ partition: name, error: String(error) }, 'queue.foreign_message');
      ack(from, message);
      return;
    }
    const { id, key, payload, at: publishedAt } = job;
    const redelivered = firstDeliveries.delete(id) ? undefined : job.redelivered;
    const known = jobs.get(id);
    if (known?.seq !== undefined || (!known && outcomes.get(id) === 'done')) {
      ack(from, message);
    } else if (known) {
      known.deliveries = [...known.deliveries, { channel: from, message }];
    } else if (appending.has(id)) {
      appending.get(id)!.push({ channel: from, message });
    } else {
      const found = { id, epoch, key, payload, publishedAt, redelivered };
      const deliveries = [{ channel: from, message }];
      if (overflow.isOverflowing(key)) append(found, deliveries);
      else {
        add(receivedJob({ ...found, seq: undefined, bytes: payload.length }, deliveries));
        void spill();
      }
      // Waiting messages go back to the broker, which sends fewer at a time.
      if (memory.usage === 'exceeded' && window() < prefetch) consumer?.reopen();
    }
  }

  /** Moves a message behind the rows of its key. */
  function append(job: OverflowJob, deliveries: Delivery[]): void {
    appending.set(job.id, deliveries);
    const release = received.hold(job.payload.length);
    void overflow.append([job]).then((seqs) => {
      release();
      appending.delete(job.id);
      if (seqs) for (const { channel: from, message } of deliveries) ack(from, message);
      overflow.refill(job.key);
    });
  }

  function done(gone: readonly ReceivedJob[]): void {
    for (const job of gone) {
      remove(job);
      // A row that could not be read is not done: it is found again.
      const isRead = job.outSince === undefined || job.payload !== undefined;
      outcomes.set(job.id, isRead ? 'done' : 'failed');
      acknowledge(job);
    }
    const ended = gone.filter(({ id }) => outcomes.get(id) === 'done');
    const stored = ended.filter(({ seq }) => seq !== undefined);
    if (stored.length > 0) overflow.remove(stored);
    const failed = ended.filter((job) => job.attempts > 0 || !job.hasAttempts).map(({ id }) => id);
    if (failed.length > 0) write('remove attempts', () => attemptRows.removeWhere({ id: { in: failed } }));
    draining.onEnded();
  }

  const opening = persist('open partition', async () => {
    await overflow.find();
    return true;
  }).then((started) => {
    if (!started || !isServing) return;
    consumer = amqp.openChannel({
      name: queue,
      reopenOnNodeChange: true,
      async setup(made) {
        await options.declare(made);
        prefetch = window();
        await made.prefetch(prefetch);
        channel = made;
        await consume(made, queue, (message) => receive(made, message));
        opened.resolve();
      },
      lost() {
        channel = undefined;
        // The broker redelivers waiting jobs in the same order; jobs that are out continue.
        const dropped = drop(({ seq }) => seq === undefined);
        firstDeliveries = new Set(dropped.filter((job) => !job.redelivered).map((job) => job.id));
        // The rows of those that are being moved may have been written before they failed.
        for (const job of dropped) if (job.redelivered) outcomes.set(job.id, 'failed');
        for (const job of jobs.values()) job.deliveries = [];
      },
    });
  });

  async function moveToOverflow(key: string, moved: readonly MessageJob[]) {
    const seqs = await overflow.append(moved);
    if (!seqs) return;
    const late: ReceivedJob[] = [];
    for (const [i, job] of moved.entries()) {
      // Otherwise it was lost with its channel: its redelivery is a duplicate of the row.
      if (jobs.get(job.id) === job) received.stored(job, seqs[i]!);
      else if (outcomes.get(job.id) === 'done') late.push({ ...job, seq: seqs[i]! });
    }
    if (late.length > 0) overflow.remove(late);
    overflow.refill(key);
  }

  /** Moves jobs of slow keys to the overflow, so that they do not fill the prefetch window; ends when no jobs are left. */
  async function spill(): Promise<void> {
    if (isSpilling) return;
    isSpilling = true;
    while (jobs.size > 0 && !closing.signal.aborted) {
      await clock.sleep(SPILL_INTERVAL_MS, closing.signal);
      if (!channel || !isServing) continue;
      if (window() >= 4 * prefetch) consumer?.reopen();
      const slow = slowJobsByKey(jobs.values(), {
        prefetch,
        isUnderMemoryPressure: memory.usage !== 'low',
        admissionSince: dispatcher.admissionSince,
      });
      for (const [key, moved] of slow) if (!overflow.isOverflowing(key)) void moveToOverflow(key, moved);
    }
    isSpilling = false;
  }

  return {
    epoch,
    opened: opened.promise,
    isHeld: (key) => isServing && !draining.isHeld(key) && mayStart() && !closing.signal.aborted,
    received,
    start(handedOut) {
      for (const { id } of handedOut) firstDeliveries.delete(id);
      return handOut(handedOut);
    },
    done,
    giveBack(failed) {
      for (const job of failed) {
        job.outSince = undefined;
        if (job.seq !== undefined) job.payload = undefined;
      }
      const isKept = ({ seq, deliveries }: ReceivedJob) =>
        isServing && (seq !== undefined || deliveries.length > 0);
      const [kept, gone] = [failed.filter(isKept), failed.filter((job) => !isKept(job))];
      for (const job of gone) {
        remove(job);
        outcomes.set(job.id, 'failed');
      }
      draining.onEnded();
      return kept;
    },
    refill: overflow.refill,
    async findOverflow() {
      await opening;
      if (isServing) await overflow.find();
    },
    async release(urgent) {
      if (!urgent.aborted) await draining.drain(urgent);
      isServing = false;
      // Before the drop: a page that is being loaded must not be offered after it.
      const appended = overflow.close();
      drop();
      draining.end();
      await draining.ended();
      await appended;
      await access.written();
      closing.abort();
      await opening;
      await consumer?.close();
    },
    lose() {
      isServing = false;
      closing.abort();
      void overflow.close();
      drop();
      draining.end();
      received.clear();
      draining.onEnded();
      void opening.then(() => consumer?.close());
    },
  };
}
