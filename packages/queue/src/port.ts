/**
 * Port `queue`: durable jobs. The jobs of one ordering key are handed to one consumer at a time, in the order of their
 * publication, at least once: handlers must be idempotent.
 */

import { Unavailable } from '@wellspring/core/unavailable';

export const QUEUES = [
  /** RunsMessage; ordering key: the source. */
  'runs',
  /** EmittedMessage; ordering key: the emitter. */
  'emitted',
] as const;
export type QueueName = (typeof QUEUES)[number];

export interface JobInput {
  /** Formatted ordering key, not empty. */
  key: string;
  /** JSON text. */
  payload: string;
}

export interface Job {
  id: string;
  key: string;
  payload: string;
  /** 1 plus the failed batches in which this job was the first. */
  attempt: number;
  /** Epoch ms of the publication. */
  published_at: number;
  /**
   * Of the lease on the job's partition under which it was handed out (the fencing token). A commit of its effects carries
   * it, so that a former owner can write nothing after the next one has written.
   */
  epoch: number;
  /** Possible duplicate of a job that was handled before. */
  redelivered?: true;
}

/**
 * Handles a batch of jobs of one key, in order. When it resolves, all are done. When it throws, jobs are redelivered in
 * the same order:
 * - PoisonJob: that job moves to the dead letters, the others are redelivered.
 * - LeaseLost: another process has the partition; its jobs are dropped here, without counting an attempt.
 * - Unavailable: redelivered within 2 s, without limit.
 * - NewerVersion: the same; the jobs before that one are handled first.
 * - anything else: redelivered after a backoff; after MAX_ATTEMPTS the first job moves to the dead letters. After some
 *   failures batches have one job, so that no job is given up because of another one.
 *
 * `next` lets the following batch of this key start before this one is done. The bytes of the batch stay counted. When it
 * fails after that, its jobs are redelivered after jobs that followed them.
 *
 * `assertHeld` throws Unavailable when another process may have the jobs, or is to have them. A handler with effects that
 * no epoch fences calls it before each of them, in the same turn: it reads the clock, so that a process that was frozen
 * notices it.
 */
export type Handler = (
  jobs: readonly [Job, ...Job[]],
  next: () => void,
  assertHeld: () => void,
) => Promise<void>;

/** The job can never succeed and moves to the dead letters. */
export class PoisonJob extends Error {
  override readonly name = 'PoisonJob';
  readonly jobId: string;
  constructor(jobId: string, reason: string) {
    super(reason);
    this.jobId = jobId;
  }
}

/** A newer version of the platform published the job: it waits until a process of that version has its partition. */
export class NewerVersion extends Unavailable {
  override readonly name = 'NewerVersion';
  readonly jobId: string;
  constructor(jobId: string, version: number) {
    super(`The job ${jobId} has version ${version}, which this process does not know: update it.`);
    this.jobId = jobId;
  }
}

/** A later lease on the partition has been used: nothing of this one takes effect any more. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost';
}

export interface Admission {
  /** Shares the memory for jobs that are out fairly with other owners. */
  owner: string;
  /** Called once: after the batch, or when it calls `next`. */
  release(): void;
}

export interface ConsumeOptions {
  /**
   * Admission: resolves when the next batch of this key may be handled; until then its jobs stay in the queue.
   * @param signal of the consumer
   * @throws anything: retried after a second
   */
  admit?(key: string, signal: AbortSignal): Promise<Admission>;
  /** Maximum number of jobs in a batch; default 1. */
  batch?: number;
  signal: AbortSignal;
}

export interface DeadLetter {
  id: string;
  queue: QueueName;
  key: string;
  payload: string;
  reason: string;
  attempts: number;
  /** Epoch ms. */
  died_at: number;
}

export const MAX_ATTEMPTS = 20;
/** Payloads of a list of dead letters; the last one may exceed it. */
export const MAX_LISTED_CHARS = 8 * 1024 * 1024;

export interface Queue {
  /** Resolves when the job is durable. */
  publish(queue: QueueName, job: JobInput): Promise<void>;
  /** In this order. */
  publishMany(queue: QueueName, jobs: readonly JobInput[]): Promise<void>;
  /**
   * Runs until the signal is aborted, and resolves when the running batches have ended.
   * @throws Error while there is another consumer of this queue
   */
  consume(queue: QueueName, handler: Handler, options: ConsumeOptions): Promise<void>;
  /** Number of jobs that wait for a process, and of those that this process has taken. */
  depth(queue: QueueName): Promise<number>;
  deadLetters: {
    /** Newest first; `after` is an id. Fewer than `limit` also when their payloads reach MAX_LISTED_CHARS. */
    list(options?: { after?: string; limit?: number }): Promise<DeadLetter[]>;
    count(): Promise<number>;
    /** Publishes it at the end of its queue. False: unknown id. */
    redrive(id: string): Promise<boolean>;
    drop(id: string): Promise<boolean>;
  };
  ping(): Promise<void>;
  close(): Promise<void>;
}
