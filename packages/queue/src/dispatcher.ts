import type { ByteBudget } from '@wellspring/core/byte-budget';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import { Unavailable } from '@wellspring/core/unavailable';
import { backoffOf, classifyFailure } from './failure.ts';
import type { JobSource, WaitingJob } from './job-source.ts';
import { createKeyQueues, type KeyQueue } from './key-queues.ts';
import type { Admission, ConsumeOptions, Handler, Job, QueueName } from './port.ts';

const ADMISSION_RETRY_DELAY_MS = 1_000;
/** A batch has at most this many bytes, unless its first job is larger: what is handed out takes several times as much. */
export const MAX_BATCH_BYTES = 1024 * 1024;

interface Consumer {
  handler: Handler;
  options: ConsumeOptions;
  /** Batches that are out. */
  out: number;
  ended(): void;
}

export interface DispatcherOptions<J extends WaitingJob> {
  queue: QueueName;
  source: JobSource<J>;
  /** Of the jobs that are out. Owners of the budget are those of the admissions, else the keys. */
  budget: ByteBudget;
  clock: Clock;
  log: Log;
  closing: AbortSignal;
}

/**
 * Hands the jobs of one queue to the consumer of this process: those of a key in order and one batch at a time, the keys
 * in turns. Failed jobs wait for their backoff or become dead letters.
 */
export interface Dispatcher<J extends WaitingJob> {
  /** Appends a job to its key. */
  offer(job: J): void;
  /** Number of waiting jobs of the key in memory. */
  waiting(key: string): number;
  /** performance.now() at which the key began to wait for its admission; undefined: not waiting. */
  admissionSince(key: string): number | undefined;
  /** Starts no further batch of the key. @returns a function that ends this */
  hold(key: string): () => void;
  /** Takes waiting jobs out of memory; those that are out are not affected. */
  withdraw(isChosen: (job: J) => boolean): J[];
  /**
   * Resolves when the consumer's signal is aborted and its last batch has ended.
   * @throws Error while there is another consumer
   */
  consume(handler: Handler, options: ConsumeOptions): Promise<void>;
}

export function createDispatcher<J extends WaitingJob>(options: DispatcherOptions<J>): Dispatcher<J> {
  const { queue, source, budget, clock, log, closing } = options;
  const keyQueues = createKeyQueues<J>();
  let consumer: Consumer | undefined;
  let isScheduled = false;

  /** Dispatches at the end of the event loop turn, so that jobs that arrive together form batches. */
  function schedule(): void {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(() => {
      isScheduled = false;
      dispatch();
    });
  }

  function dispatch(): void {
    while (consumer && !consumer.options.signal.aborted && !closing.aborted) {
      const keyQueue = keyQueues.next();
      if (!keyQueue) return;
      void handOut(consumer, keyQueue);
    }
  }

  function settle(one: Consumer): void {
    if (one !== consumer || !one.options.signal.aborted || one.out > 0) return;
    consumer = undefined;
    one.ended();
  }

  async function handOut(one: Consumer, keyQueue: KeyQueue<J>): Promise<void> {
    const { admit, signal } = one.options;
    const admission = admit && (await admitted(keyQueue, admit, signal));
    if (!admit || admission) {
      if (signal.aborted || closing.aborted) {
        admission?.release();
        keyQueues.release(keyQueue);
      } else await run(one, keyQueue, admission);
    }
    keyQueues.end(keyQueue);
    schedule();
  }

  async function admitted(
    keyQueue: KeyQueue<J>,
    admit: NonNullable<ConsumeOptions['admit']>,
    signal: AbortSignal,
  ): Promise<Admission | undefined> {
    keyQueue.admissionSince = performance.now();
    try {
      return await admit(keyQueue.key, signal);
    } catch (error) {
      if (signal.aborted) keyQueues.release(keyQueue);
      else {
        log.warn({ key: keyQueue.key, error: String(error) }, 'queue.admission_failed');
        void resume(keyQueue, ADMISSION_RETRY_DELAY_MS);
      }
      return undefined;
    } finally {
      keyQueue.admissionSince = undefined;
    }
  }

  /** Jobs are taken after the admission and with their bytes, so that they can be withdrawn while these are pending. */
  async function run(one: Consumer, keyQueue: KeyQueue<J>, admission?: Admission): Promise<void> {
    const { batch = 1, signal } = one.options;
    const owner = admission?.owner ?? keyQueue.key;
    let isHolding = true;
    const next = () => {
      if (!isHolding) return;
      isHolding = false;
      admission?.release();
      release(keyQueue);
    };
    one.out += 1;
    let delay: number | undefined;
    let releaseBytes: (() => void) | undefined;
    try {
      let bytes = keyQueues.sizeOf(keyQueue, batch, MAX_BATCH_BYTES);
      releaseBytes = budget.tryTake(bytes, owner);
      if (!releaseBytes) {
        bytes = keyQueues.sizeOf(keyQueue, 1, MAX_BATCH_BYTES);
        releaseBytes = await budget.take(bytes, owner, signal);
      }
      const jobs = keyQueues.take(keyQueue, batch, bytes);
      if (jobs.length > 0) {
        source.taken(keyQueue.key);
        delay = await handle(one.handler, keyQueue, jobs, next);
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      next();
      releaseBytes?.();
      if (delay !== undefined) void resume(keyQueue, delay);
      one.out -= 1;
      settle(one);
    }
  }

  function release(keyQueue: KeyQueue<J>): void {
    keyQueues.release(keyQueue);
    schedule();
  }

  async function resume(keyQueue: KeyQueue<J>, delay: number): Promise<void> {
    if (delay > 0) await clock.sleep(delay, closing);
    release(keyQueue);
  }

  /** @returns ms to wait before jobs that were given back may start; undefined: none were given back */
  async function handle(
    handler: Handler,
    keyQueue: KeyQueue<J>,
    jobs: readonly J[],
    next: () => void,
  ): Promise<number | undefined> {
    let handed: readonly Job[] = [];
    try {
      handed = await source.start(jobs);
      const [first, ...others] = handed;
      const isHeld = source.leaseOf(jobs);
      const assertHeld = () => {
        if (!isHeld())
          throw new Unavailable('The lease on the partition of the jobs ends, or is not certain.');
      };
      if (first) await handler([first, ...others], next, assertHeld);
      source.done(jobs);
      return undefined;
    } catch (error) {
      // The source may have left out jobs before it.
      const first = jobs.find(({ id }) => id === handed[0]?.id) ?? jobs[0]!;
      return failed(keyQueue, jobs, first, error);
    }
  }

  /**
   * Returns the jobs to their key, except a dead one.
   * @param first of those that the handler got
   * @returns ms to wait before its next batch
   */
  async function failed(
    keyQueue: KeyQueue<J>,
    jobs: readonly J[],
    first: J,
    error: unknown,
  ): Promise<number> {
    const reason = String(error);
    let { dead, counts } = classifyFailure(error, jobs, first);
    const fields = { queue, key: first.key, job: (dead ?? first).id, reason };
    try {
      if (dead) {
        await source.addDeadLetter(dead, reason);
        log.error(fields, 'queue.job_dead');
      } else {
        log.warn({ ...fields, attempt: first.attempts + 1 }, 'queue.job_failed');
        if (counts) {
          await source.countAttempt(first);
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
    // The handler may have done a part of its work.
    for (const job of left) job.redelivered = true;
    keyQueues.giveBack(keyQueue, source.giveBack(left, error));
    return dead ? 0 : backoffOf(first, counts);
  }

  return {
    offer(job) {
      keyQueues.add(job);
      schedule();
    },
    waiting: (key) => keyQueues.get(key)?.waiting.length ?? 0,
    admissionSince: (key) => keyQueues.get(key)?.admissionSince,
    hold(key) {
      const keyQueue = keyQueues.hold(key);
      return () => release(keyQueue);
    },
    withdraw: keyQueues.withdraw,
    async consume(handler, options) {
      if (options.signal.aborted) return;
      if (consumer) throw new Error(`The queue ${queue} already has a consumer.`);
      schedule();
      await new Promise<void>((ended) => {
        const one: Consumer = { handler, options, out: 0, ended };
        consumer = one;
        options.signal.addEventListener('abort', () => settle(one), { once: true });
      });
    },
  };
}
