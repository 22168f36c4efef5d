import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Entry, KeyQueue, KeyQueues } from './key-queues.ts';
import type { ConsumeOptions, Handler } from './port.ts';

const ADMISSION_RETRY_DELAY_MS = 1_000;

interface Consumer {
  handler: Handler;
  options: ConsumeOptions;
  /** Batches that count towards the concurrency. */
  running: number;
  /** Batches that are out. */
  out: number;
  ended(): void;
}

export interface DispatcherOptions<E extends Entry> {
  keyQueues: KeyQueues<E>;
  /**
   * Handles a batch. Never rejects.
   * @returns ms to wait before jobs that were given back may start; undefined: none were given back
   */
  handle(
    handler: Handler,
    keyQueue: KeyQueue<E>,
    entries: E[],
    next: () => void,
  ): Promise<number | undefined>;
  clock: Clock;
  log: Log;
  closing: AbortSignal;
}

/** Hands batches of one queue to the consumers of this process. */
export interface Dispatcher {
  /** Number of consumers. */
  readonly size: number;
  /** Must be called after entries or consumers were added. */
  dispatch(): void;
  /** Resolves when the consumer's signal is aborted and its last batch has ended. */
  consume(handler: Handler, options: ConsumeOptions): Promise<void>;
}

export function createDispatcher<E extends Entry>({
  keyQueues,
  handle,
  clock,
  log,
  closing,
}: DispatcherOptions<E>): Dispatcher {
  const consumers = new Set<Consumer>();

  /** The consumer with the fewest running batches that may take another one. */
  function leastBusy(): Consumer | undefined {
    let found: Consumer | undefined;
    for (const one of consumers) {
      const { signal, concurrency = Number.POSITIVE_INFINITY } = one.options;
      if (signal.aborted || one.running >= concurrency) continue;
      if (!found || one.running < found.running) found = one;
    }
    return found;
  }

  function settle(consumer: Consumer): void {
    if (!consumer.options.signal.aborted || consumer.out > 0) return;
    if (consumers.delete(consumer)) consumer.ended();
  }

  async function run(consumer: Consumer, keyQueue: KeyQueue<E>): Promise<void> {
    const entries = keyQueues.take(keyQueue, consumer.options.batch ?? 1);
    // The jobs were purged.
    if (entries.length === 0) return keyQueues.release(keyQueue);
    let isHolding = true;
    const next = () => {
      if (!isHolding) return;
      isHolding = false;
      consumer.running -= 1;
      keyQueues.release(keyQueue);
      // Not at once: handlers would nest.
      queueMicrotask(dispatch);
    };
    consumer.running += 1;
    consumer.out += 1;
    const delay = await handle(consumer.handler, keyQueue, entries, next);
    consumer.out -= 1;
    settle(consumer);
    next();
    if (delay !== undefined) void resume(keyQueue, delay);
  }

  async function resume(keyQueue: KeyQueue<E>, delay: number): Promise<void> {
    if (delay > 0) await clock.sleep(delay, closing);
    keyQueues.release(keyQueue);
    dispatch();
  }

  /** Jobs are taken after the admission, so that they can be purged or moved while it is pending. */
  async function runAdmitted(
    consumer: Consumer,
    keyQueue: KeyQueue<E>,
    admit: NonNullable<ConsumeOptions['admit']>,
  ): Promise<void> {
    const { signal } = consumer.options;
    let release: () => void;
    keyQueue.admissionSince = performance.now();
    try {
      ({ release } = await admit(keyQueue.key, signal));
    } catch (error) {
      if (signal.aborted) return keyQueues.release(keyQueue);
      log.warn({ key: keyQueue.key, error: String(error) }, 'queue.admission_failed');
      return resume(keyQueue, ADMISSION_RETRY_DELAY_MS);
    } finally {
      keyQueue.admissionSince = undefined;
    }
    try {
      if (signal.aborted || closing.aborted) keyQueues.release(keyQueue);
      else await run(consumer, keyQueue);
    } finally {
      release();
    }
  }

  async function handOut(consumer: Consumer, keyQueue: KeyQueue<E>): Promise<void> {
    const { admit } = consumer.options;
    await (admit ? runAdmitted(consumer, keyQueue, admit) : run(consumer, keyQueue));
    keyQueues.end(keyQueue);
    dispatch();
  }

  function dispatch(): void {
    while (!closing.aborted) {
      const consumer = leastBusy();
      const keyQueue = consumer && keyQueues.next();
      if (!keyQueue) return;
      void handOut(consumer, keyQueue);
    }
  }

  return {
    get size() {
      return consumers.size;
    },
    dispatch,
    consume(handler, options) {
      if (options.signal.aborted) return Promise.resolve();
      return new Promise((ended) => {
        const consumer: Consumer = { handler, options, running: 0, out: 0, ended };
        consumers.add(consumer);
        options.signal.addEventListener('abort', () => settle(consumer), { once: true });
      });
    },
  };
}
