import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Entry, KeyQueue, KeyQueues } from './key-queues.ts';
import type { ConsumeOptions, Handler } from './port.ts';

const ADMISSION_RETRY_DELAY_MS = 1_000;

interface Consumer {
  handler: Handler;
  options: ConsumeOptions;
  running: number;
  ended(): void;
}

export interface DispatcherOptions<E extends Entry> {
  keyQueues: KeyQueues<E>;
  /** Handles a batch. Never rejects. @returns ms to wait before the next batch of the key */
  handle(handler: Handler, keyQueue: KeyQueue<E>, entries: E[]): Promise<number>;
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
    if (!consumer.options.signal.aborted || consumer.running > 0) return;
    if (consumers.delete(consumer)) consumer.ended();
  }

  async function run(consumer: Consumer, keyQueue: KeyQueue<E>): Promise<number> {
    const entries = keyQueues.take(keyQueue, consumer.options.batch ?? 1);
    consumer.running += 1;
    // Empty when the jobs were purged.
    const delay = entries.length > 0 ? await handle(consumer.handler, keyQueue, entries) : 0;
    consumer.running -= 1;
    settle(consumer);
    return delay;
  }

  /** Jobs are taken after the admission, so that they can be purged or moved while it is pending. */
  async function runAdmitted(
    consumer: Consumer,
    keyQueue: KeyQueue<E>,
    admit: NonNullable<ConsumeOptions['admit']>,
  ): Promise<number> {
    const { signal } = consumer.options;
    let release: () => void;
    keyQueue.admissionSince = performance.now();
    try {
      release = await admit(keyQueue.key, signal);
    } catch (error) {
      if (signal.aborted) return 0;
      log.warn({ key: keyQueue.key, error: String(error) }, 'queue.admission_failed');
      return ADMISSION_RETRY_DELAY_MS;
    } finally {
      keyQueue.admissionSince = undefined;
    }
    try {
      return signal.aborted || closing.aborted ? 0 : await run(consumer, keyQueue);
    } finally {
      release();
    }
  }

  async function handOut(consumer: Consumer, keyQueue: KeyQueue<E>): Promise<void> {
    const { admit } = consumer.options;
    const delay = await (admit ? runAdmitted(consumer, keyQueue, admit) : run(consumer, keyQueue));
    if (delay > 0) await clock.sleep(delay, closing);
    keyQueues.release(keyQueue);
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
        const consumer: Consumer = { handler, options, running: 0, ended };
        consumers.add(consumer);
        options.signal.addEventListener('abort', () => settle(consumer), { once: true });
      });
    },
  };
}
