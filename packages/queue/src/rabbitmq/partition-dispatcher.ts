import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Collection } from '@wellspring/store/port';
import { createDispatcher } from '../dispatcher.ts';
import { backoffOf, classifyFailure } from '../failure.ts';
import { createKeyQueues, type KeyQueue } from '../key-queues.ts';
import type { ConsumeOptions, Handler, Job, QueueName } from '../port.ts';
import type { AttemptsRow } from './collections.ts';
import type { Burial } from './dead-letters.ts';
import type { Leases } from './leases.ts';
import type { Partition, PartitionEvents } from './partition.ts';
import type { ReceivedJob } from './received-job.ts';

export interface PartitionDispatcherOptions {
  queue: QueueName;
  clock: Clock;
  log: Log;
  leases: Leases;
  attemptRows: Collection<AttemptsRow>;
  partitionOf(key: string): number;
  open(lease: { partition: number; epoch: number }, events: PartitionEvents): Partition;
  bury(dead: Burial): Promise<void>;
  closing: AbortSignal;
}

/** Hands out the jobs of one queue's partitions that this process owns. */
export interface PartitionDispatcher {
  readonly owned: ReadonlyMap<number, Partition>;
  readonly isConsumed: boolean;
  consume(handler: Handler, options: ConsumeOptions): Promise<void>;
  /** Must be called at an interval: moves jobs of slow keys to the overflow. */
  spill(): void;
}

/** Delay between the first messages of the acquired partitions and the first job, so that keys start evenly. */
const SETTLE_DELAY_MS = 20;
/** A partition that opens later is not waited for. */
const MAX_OPENING_MS = 200;
/** A release waits while a job has been running for longer than this. */
const LONG_RUNNING_MS = 1_000;
const RELEASE_CHECK_INTERVAL_MS = 100;
/** Payloads in memory; beyond, waiting jobs move to the overflow. */
const MAX_PAYLOAD_BYTES = 128 * 1024 * 1024;

const toJob = (
  { id, key, payload, attempts: failures, publishedAt, redelivered }: ReceivedJob,
  epoch: number,
): Job => ({
  id,
  key,
  payload,
  attempt: failures + 1,
  published_at: publishedAt,
  epoch,
  ...(redelivered && { redelivered }),
});

export function createPartitionDispatcher(options: PartitionDispatcherOptions): PartitionDispatcher {
  const { queue, clock, log, leases, attemptRows, partitionOf, open, bury, closing } = options;
  const keyQueues = createKeyQueues<ReceivedJob>();
  const owned = new Map<number, Partition>();
  const dispatcher = createDispatcher({ keyQueues, handle: handOut, clock, log, closing });
  let sharing: { stop: AbortController; ended: Promise<void> } | undefined;
  /** performance.now() from which jobs are handed out. */
  let settledAt = 0;
  let scheduled: NodeJS.Timeout | NodeJS.Immediate | undefined;
  /** Acquired partitions without a consumer so far. */
  const opening = new Set<number>();
  /** Batches that wait for a certain lease. */
  const starting = new Set<() => void>();
  let isUnderMemoryPressure = false;

  /** Dispatches at the end of the event loop turn, so that jobs that arrive together form batches. */
  function schedule(): void {
    if (scheduled) return;
    const settling = settledAt - performance.now();
    const run = () => {
      scheduled = undefined;
      if (performance.now() < settledAt) schedule();
      else dispatcher.dispatch();
    };
    scheduled = settling > 0 ? setTimeout(run, settling) : setImmediate(run);
  }

  async function handOut(
    handler: Handler,
    keyQueue: KeyQueue<ReceivedJob>,
    jobs: ReceivedJob[],
    next: () => void,
  ): Promise<number | undefined> {
    const outAt = performance.now();
    for (const job of jobs) Object.assign(job, { out: true, outAt });
    const [first, ...others] = jobs as [ReceivedJob, ...ReceivedJob[]];
    // The partition object that received it; a later owner is not affected.
    const partition = owned.get(partitionOf(first.key));
    const isLost = () => partition === undefined || owned.get(partitionOf(first.key)) !== partition;
    while (!isLost() && !leases.mayStart) await new Promise<void>((start) => starting.add(start));
    if (isLost()) {
      keyQueues.settle(jobs.length);
      return undefined;
    }
    const { epoch } = partition!;
    try {
      await handler([toJob(first, epoch), ...others.map((job) => toJob(job, epoch))], next);
      for (const job of jobs) job.out = false;
      keyQueues.settle(jobs.length);
      partition?.done(jobs);
      return undefined;
    } catch (error) {
      return failed(partition, keyQueue, jobs, error);
    }
  }

  /** Returns the jobs to their queue, except a dead one. @returns ms to wait before the next batch */
  async function failed(
    partition: Partition | undefined,
    keyQueue: KeyQueue<ReceivedJob>,
    jobs: ReceivedJob[],
    error: unknown,
  ): Promise<number | undefined> {
    const reason = String(error);
    const [first] = jobs as [ReceivedJob, ...ReceivedJob[]];
    const number = partitionOf(first.key);
    // By name: an error may come from another copy of the module.
    if ((error as Error).name === 'LeaseLost' && owned.get(number) === partition)
      leases.forfeit(queue, number);
    if (owned.get(number) !== partition) {
      keyQueues.settle(jobs.length);
      return undefined;
    }
    let { dead, counts } = classifyFailure(error, jobs, ({ id }) => id);
    const fields = { queue, key: first.key, job: (dead ?? first).id, reason };
    try {
      if (dead) {
        const { id, key, payload, attempts: failures } = dead;
        await bury({ job: id, queue, key, payload, reason, attempts: failures + 1 });
        log.error(fields, 'queue.job_dead');
      } else {
        log.warn({ ...fields, attempt: first.attempts + 1 }, 'queue.job_failed');
        if (counts) {
          await attemptRows.increment(first.id, { attempts: 1 }, { id: first.id, attempts: 1 });
          first.attempts += 1;
        }
      }
    } catch (writeError) {
      // The jobs are not at fault: no attempt is counted.
      dead = undefined;
      counts = false;
      log.error({ queue, error: String(writeError) }, 'queue.write_failed');
    }
    if (!counts) first.uncounted = (first.uncounted ?? 0) + 1;
    const left = jobs.filter((job) => job !== dead);
    for (const job of jobs) job.out = false;
    // Jobs of a lost channel or a released partition are redelivered by the broker.
    const stays = (job: ReceivedJob) =>
      partition?.jobs.get(job.id) === job && !partition.isReleasing && (job.stored || job.delivery);
    const back = left.filter(stays);
    // The handler may have done a part of its work.
    for (const job of back) job.redelivered = true;
    partition?.forget(left.filter((job) => partition.jobs.get(job.id) === job && !back.includes(job)));
    keyQueues.settle(jobs.length - back.length);
    keyQueues.giveBack(keyQueue, back);
    partition?.done(dead ? [dead] : []);
    if (dead) return 0;
    return backoffOf(first, counts);
  }

  function acquire(partition: number, epoch: number): void {
    settledAt = performance.now() + MAX_OPENING_MS;
    opening.add(partition);
    const opened = open(
      { partition, epoch },
      {
        opened() {
          if (!opening.delete(partition) || opening.size > 0) return;
          settledAt = performance.now() + SETTLE_DELAY_MS;
          clearTimeout(scheduled as NodeJS.Timeout | undefined);
          scheduled = undefined;
          schedule();
        },
        enqueue(job) {
          keyQueues.add(job);
          schedule();
        },
        drop(isSelected, chosen) {
          const keys = [...keyQueues.keys()].filter(isSelected);
          return keys.flatMap((key) => keyQueues.purge(key, chosen));
        },
        isUnderMemoryPressure: () => isUnderMemoryPressure,
        admissionSince: (key) => keyQueues.get(key)?.admissionSince,
      },
    );
    owned.set(partition, opened);
  }

  function lost(partition: number): void {
    const one = owned.get(partition);
    owned.delete(partition);
    opening.delete(partition);
    one?.lose();
    renewed();
  }

  function renewed(): void {
    for (const start of [...starting]) start();
    starting.clear();
  }

  async function release(partition: number, urgent: AbortSignal): Promise<void> {
    const one = owned.get(partition);
    // Until long-running jobs end, the partition keeps serving its other keys.
    const since = () => performance.now() - LONG_RUNNING_MS;
    const isLongRunning = (job: ReceivedJob) => job.out && job.outAt < since();
    while (!urgent.aborted && [...(one?.jobs.values() ?? [])].some(isLongRunning)) {
      await clock.sleep(RELEASE_CHECK_INTERVAL_MS, urgent);
    }
    opening.delete(partition);
    await one?.release();
    if (owned.get(partition) === one) owned.delete(partition);
  }

  return {
    owned,
    get isConsumed() {
      return dispatcher.size > 0;
    },
    spill() {
      let bytes = 0;
      for (const partition of owned.values()) bytes += partition.bytes;
      isUnderMemoryPressure = bytes > MAX_PAYLOAD_BYTES;
      for (const partition of owned.values()) partition.spill();
    },
    async consume(handler, consumeOptions) {
      const { signal } = consumeOptions;
      if (signal.aborted) return;
      // Partitions of previous consumers are released first.
      while (sharing?.stop.signal.aborted) await sharing.ended;
      if (signal.aborted) return;
      if (!sharing) {
        const stop = new AbortController();
        const ended = leases
          .join(queue, { take: acquire, release, lost, renewed }, stop.signal)
          .finally(() => {
            sharing = undefined;
          });
        sharing = { stop, ended };
      }
      const current = sharing;
      const ended = dispatcher.consume(handler, consumeOptions);
      schedule();
      await ended;
      // The last consumer releases the partitions.
      if (dispatcher.size === 0) current.stop.abort();
      if (current.stop.signal.aborted) await current.ended;
    },
  };
}
