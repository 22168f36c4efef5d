import type { ByteBudget } from '@wellspring/core/byte-budget';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Collection } from '@wellspring/store/port';
import { createJobDispatcher } from '../job-dispatcher.ts';
import type { JobSource } from '../job-source.ts';
import type { ConsumeOptions, Handler, Job, QueueName } from '../port.ts';
import type { AttemptsRow } from './collections.ts';
import type { Burial } from './dead-letters.ts';
import type { Leases } from './leases.ts';
import type { Partition, PartitionEvents } from './partition-interface.ts';
import type { ReceivedJob } from './received-job.ts';

export interface PartitionDispatcherOptions {
  queue: QueueName;
  clock: Clock;
  log: Log;
  leases: Leases;
  attemptRows: Collection<AttemptsRow>;
  /** Of the jobs that are out. */
  budget: ByteBudget;
  /** For the payloads in memory; beyond, consumers of partitions are narrowed and jobs move to the overflow. */
  maxBytes: number;
  partitionOf(key: string): number;
  open(lease: { partition: number; epoch: number }, events: PartitionEvents): Partition;
  bury(dead: Burial): Promise<void>;
  closing: AbortSignal;
}

/** Hands out the jobs of one queue's partitions that this process owns. */
export interface PartitionDispatcher {
  readonly owned: ReadonlyMap<number, Partition>;
  readonly isConsumed: boolean;
  /** Of the payloads in memory. */
  readonly bytes: number;
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

export function createPartitionDispatcher(options: PartitionDispatcherOptions): PartitionDispatcher {
  const { queue, clock, leases, attemptRows, maxBytes, partitionOf, open, bury } = options;
  const owned = new Map<number, Partition>();
  /** The partition object that received the job; a later owner is not affected. */
  const homes = new WeakMap<ReceivedJob, Partition>();
  /** Batches that were not handed out, since the lease was lost. */
  const dropped = new WeakSet<ReceivedJob>();
  /** Acquired partitions without a consumer so far. */
  const opening = new Set<number>();
  /** Batches that wait for a certain lease. */
  const starting = new Set<() => void>();
  let sharing: { stop: AbortController; ended: Promise<void> } | undefined;
  let isUnderMemoryPressure = false;

  const homeOf = ([first]: readonly ReceivedJob[]) => homes.get(first!)!;
  const isOwned = (jobs: readonly ReceivedJob[]) => owned.get(partitionOf(jobs[0]!.key)) === homeOf(jobs);

  const source: JobSource<ReceivedJob> = {
    start(jobs) {
      const outAt = performance.now();
      for (const job of jobs) Object.assign(job, { out: true, outAt });
      return leases.mayStart && isOwned(jobs) ? toJobs(jobs) : startLater(jobs);
    },
    taken() {},
    done(jobs) {
      if (jobs.length === 0 || dropped.has(jobs[0]!)) return;
      for (const job of jobs) job.out = false;
      homeOf(jobs).done(jobs);
    },
    giveBack(jobs, error) {
      if (jobs.length === 0) return [];
      // By name: an error may come from another copy of the module.
      const isLost = (error as Error | undefined)?.name === 'LeaseLost';
      if (isLost && isOwned(jobs)) leases.forfeit(queue, partitionOf(jobs[0]!.key));
      for (const job of jobs) job.out = false;
      if (!isOwned(jobs)) return [];
      const home = homeOf(jobs);
      const isKnown = (job: ReceivedJob) => home.jobs.get(job.id) === job;
      // Jobs of a lost channel or a released partition are redelivered by the broker.
      const back = jobs.filter(
        (job) => isKnown(job) && !home.isReleasing && (job.stored || job.delivery !== undefined),
      );
      home.forget(jobs.filter((job) => isKnown(job) && !back.includes(job)));
      home.done([]);
      return back;
    },
    async countAttempt({ id }) {
      await attemptRows.increment(id, { attempts: 1 }, { id, attempts: 1 });
    },
    async bury(job, reason) {
      const { id, key, payload, attempts: failures } = job;
      await bury({ job: id, queue, key, payload, reason, attempts: failures + 1 });
      job.out = false;
      homeOf([job]).done([job]);
    },
  };
  const dispatcher = createJobDispatcher({ ...options, source });

  function toJobs(jobs: readonly ReceivedJob[]): Job[] {
    const { epoch } = homeOf(jobs);
    return jobs.map(({ id, key, payload, attempts: failures, publishedAt, redelivered }) => ({
      id,
      key,
      payload,
      attempt: failures + 1,
      published_at: publishedAt,
      epoch,
      ...(redelivered && { redelivered }),
    }));
  }

  async function startLater(jobs: readonly ReceivedJob[]): Promise<Job[]> {
    while (isOwned(jobs) && !leases.mayStart) await new Promise<void>((start) => starting.add(start));
    if (isOwned(jobs)) return toJobs(jobs);
    for (const job of jobs) dropped.add(job);
    return [];
  }

  function renewed(): void {
    for (const start of [...starting]) start();
    starting.clear();
  }

  function acquire(partition: number, epoch: number): void {
    owned.get(partition)?.lose();
    dispatcher.pauseUntil(performance.now() + MAX_OPENING_MS);
    opening.add(partition);
    const one: Partition = open(
      { partition, epoch },
      {
        opened() {
          if (!opening.delete(partition) || opening.size > 0) return;
          dispatcher.pauseUntil(performance.now() + SETTLE_DELAY_MS);
        },
        enqueue(job) {
          homes.set(job, one);
          dispatcher.offer(job);
          limit();
        },
        drop: dispatcher.withdraw,
        isUnderMemoryPressure: () => isUnderMemoryPressure,
        maxBytes: () => maxBytes / 2 / Math.max(1, owned.size),
        admissionSince: dispatcher.admissionSince,
      },
    );
    owned.set(partition, one);
  }

  const bytesOf = (partitions: Iterable<Partition>) => {
    let sum = 0;
    for (const { bytes } of partitions) sum += bytes;
    return sum;
  };

  /** The broker sends more than the memory may hold: the partition with the most gets a smaller prefetch window. */
  function limit(): void {
    if (bytesOf(owned.values()) <= maxBytes) return;
    const [largest] = [...owned.values()].sort((a, b) => b.bytes - a.bytes);
    largest!.narrow();
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

  function lost(partition: number): void {
    const one = owned.get(partition);
    owned.delete(partition);
    opening.delete(partition);
    one?.lose();
    renewed();
  }

  return {
    owned,
    get bytes() {
      return bytesOf(owned.values());
    },
    get isConsumed() {
      return dispatcher.consumers > 0;
    },
    spill() {
      isUnderMemoryPressure = bytesOf(owned.values()) > maxBytes / 2;
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
        const handlers = { take: acquire, release, lost, renewed };
        const ended = leases.join(queue, handlers, stop.signal).finally(() => {
          sharing = undefined;
        });
        sharing = { stop, ended };
      }
      const current = sharing;
      await dispatcher.consume(handler, consumeOptions);
      // The last consumer releases the partitions.
      if (dispatcher.consumers === 0) current.stop.abort();
      if (current.stop.signal.aborted) await current.ended;
    },
  };
}
