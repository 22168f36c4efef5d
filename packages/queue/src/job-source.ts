import type { Job } from './port.ts';

/** A job that waits in the memory of this process, or is out at a handler. */
export interface WaitingJob {
  readonly id: string;
  readonly key: string;
  /** Failed ones. */
  attempts: number;
  /** Failures that do not count as attempts; they only determine the backoff. */
  uncounted?: number;
  /** It caused a temporary failure: batches have one job until it is done, so that the jobs before it are not held up. */
  alone?: true;
  /** Epoch ms. */
  readonly publishedAt: number;
  /** undefined: read from the database when it is needed. */
  payload: string | undefined;
  /** Of the payload. */
  readonly bytes: number;
  /** It may have been handed out before. */
  redelivered: true | undefined;
}

/**
 * Where the jobs of one queue come from, and where they end: the part of the dispatcher that differs between adapters. The
 * source offers jobs to the dispatcher (`Dispatcher.offer`), those of a key in order. It decides how many of them are in
 * memory; all else (turns of keys, batches, retries, dead letters) is decided by the dispatcher.
 */
export interface JobSource<J extends WaitingJob> {
  /**
   * The jobs go to a handler: with their payloads, in this order, without those that are gone. A source whose lease is
   * uncertain waits until it is certain, or returns none.
   */
  start(jobs: readonly J[]): Job[] | Promise<Job[]>;
  /** Whether these jobs, which are out, still belong to this process. @returns a function that reads the clock */
  leaseOf(jobs: readonly J[]): () => boolean;
  /** A batch of the key was taken: time to offer more of its jobs. */
  taken(key: string): void;
  /** The jobs must not be offered once more. Does not fail: the source repeats its writes until they succeed. */
  done(jobs: readonly J[]): void;
  /**
   * The batch has failed, and these jobs wait again.
   * @returns those that the dispatcher keeps; the others will be offered again, or belong to another process
   */
  giveBack(jobs: readonly J[], error: unknown): readonly J[];
  /** Stores one more failed attempt. @throws when it could not be stored */
  countAttempt(job: J): Promise<void>;
  /** Moves the job to the dead letters; it is done. @throws when it could not be stored */
  addDeadLetter(job: J, reason: string): Promise<void>;
}
