/**
 * Port `queue`: durable work.
 *
 * Vocabulary: a *job* is a JSON text with a *key*; the jobs of one key are handed to one consumer at a time, in the
 * order of their publication. At least once: whoever handles a job must make a second time harmless.
 */

export const QUEUES = [
  /** RunsMessage, keyed by the id of the source. */
  'runs',
  /** EmittedMessage, keyed by the id of the emitter. */
  'emitted',
] as const;
export type QueueName = (typeof QUEUES)[number];

export interface JobInput {
  /** Not empty. */
  key: string;
  /** JSON text. */
  payload: string;
}

export interface Job {
  id: string;
  key: string;
  payload: string;
  /** 1 plus the failures that were counted against this job: those of batches that it led. */
  attempt: number;
  /** Epoch ms of the publication. */
  published_at: number;
  /** It may be a copy of a job that was done, however long ago. */
  redelivered?: true;
}

/**
 * Handles jobs of one key, in order. Resolves: all are done. Throws a PoisonJob: that
 * job is dead, the others are handed out again. Throws Unavailable: all are handed out again within 2 s, in the same
 * order, as often as it takes. Anything else thrown: so, too, but after a backoff, and the first is dead after
 * MAX_ATTEMPTS. After some failures they come one by one, so that no job dies for another one of its batch.
 */
export type Handler = (jobs: readonly [Job, ...Job[]]) => Promise<void>;

/** A job that can never be done: it goes to the dead letters, where it can be looked at. */
export class PoisonJob extends Error {
  override readonly name = 'PoisonJob';
  readonly jobId: string;
  constructor(jobId: string, reason: string) {
    super(reason);
    this.jobId = jobId;
  }
}

export interface ConsumeOptions {
  /** Batches handled at a time by this consumer; default: as many as there are, or as `admit` admits. */
  concurrency?: number;
  /**
   * Waits until a batch of this key may be handled. Every key with jobs waits for its own admission; meanwhile its jobs
   * stay in the queue, and cost this process what waiting jobs cost.
   * @param signal that of the consumer; when it is aborted, nobody waits for the admission any more
   * @returns a function that is called when the batch is over
   * @throws anything: the key asks again after a second
   */
  admit?(key: string, signal: AbortSignal): Promise<() => void>;
  /** Most jobs in a batch; default 1. */
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

export interface Queue {
  /** Resolves when the job is durable: it survives SIGKILL of any process from then on. */
  publish(queue: QueueName, job: JobInput): Promise<void>;
  /** All or none, in this order. */
  publishMany(queue: QueueName, jobs: readonly JobInput[]): Promise<void>;
  /** Runs until the signal is aborted; then starts nothing new, and resolves when what runs is finished. */
  consume(queue: QueueName, handler: Handler, options: ConsumeOptions): Promise<void>;
  /** Jobs that wait or run. */
  depth(queue: QueueName): Promise<number>;
  /** Drops the waiting jobs of a key and of its lanes `key#n` (its source was deleted). */
  purgeKey(queue: QueueName, key: string): Promise<void>;
  deadLetters: {
    /** Newest first; `after` is an id. */
    list(options?: { after?: string; limit?: number }): Promise<DeadLetter[]>;
    get(id: string): Promise<DeadLetter | undefined>;
    /** How many there are. */
    count(): Promise<number>;
    /** Publishes it again, at the end of its queue. */
    redrive(id: string): Promise<boolean>;
    drop(id: string): Promise<boolean>;
  };
  ping(): Promise<void>;
  close(): Promise<void>;
}
