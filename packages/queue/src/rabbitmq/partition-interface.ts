import type { ReceivedJob } from './received-job.ts';

/** A partition that this process owns, as its dispatcher sees it. */
export interface Partition {
  /** Jobs in memory by id, in order of arrival. */
  readonly jobs: ReadonlyMap<string, ReceivedJob>;
  /** Of the lease. */
  readonly epoch: number;
  /** No further job is started. */
  readonly isReleasing: boolean;
  /** Of the payloads in memory. */
  readonly bytes: number;
  /** The jobs are done or dead: acknowledges their messages and removes their rows. */
  done(jobs: readonly ReceivedJob[]): void;
  /** Removes jobs from memory that the broker will redeliver. */
  forget(jobs: readonly ReceivedJob[]): void;
  /** Moves jobs of slow keys to the overflow, so that they do not fill the prefetch window. */
  spill(): void;
  /** Its payloads take too much memory: the broker gets back what waits, and sends less at a time. */
  narrow(): void;
  /** Finds overflow rows that a former owner wrote late. */
  findOverflow(): Promise<void>;
  /** Resolves when no job is out and all acknowledgements are sent; waiting jobs are left to the next owner. */
  release(): Promise<void>;
  /** The lease is lost: drops everything, without waiting for jobs that are out. */
  lose(): void;
}

export interface PartitionEvents {
  /** Messages arrive. */
  opened(): void;
  /** Appends a job to the queue of its key. */
  enqueue(job: ReceivedJob): void;
  /** Removes chosen waiting jobs of the selected keys. */
  drop(isSelected: (key: string) => boolean, chosen: (job: ReceivedJob) => boolean): ReceivedJob[];
  isUnderMemoryPressure(): boolean;
  /** For the payloads of one partition in memory. */
  maxBytes(): number;
  /** performance.now() at which the key began to wait for its admission; undefined: not waiting. */
  admissionSince(key: string): number | undefined;
}
