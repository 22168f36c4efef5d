import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Entry, Lane, Lanes } from './lanes.ts';
import type { ConsumeOptions, Handler } from './port.ts';

/** A lane whose admission failed, such as for a database that does not answer, asks again after this time. */
const ADMISSION_RETRY_MS = 1_000;

interface Consumer {
  handler: Handler;
  options: ConsumeOptions;
  running: number;
  gone(): void;
}

export interface DispatcherOptions<E extends Entry> {
  lanes: Lanes<E>;
  /** Handles a batch. Never rejects. @returns the ms for which the lane rests before its next batch */
  handle(handler: Handler, lane: Lane<E>, entries: E[]): Promise<number>;
  clock: Clock;
  log: Log;
  closing: AbortSignal;
}

/** Hands the lanes of one queue to the consumers of this process. */
export interface Dispatcher {
  /** Consumers that are not gone. */
  readonly size: number;
  /** Has to be called after entries or consumers were added. */
  dispatch(): void;
  /** Resolves when the signal of the consumer is aborted and its last batch is over. */
  consume(handler: Handler, options: ConsumeOptions): Promise<void>;
}

export function createDispatcher<E extends Entry>({
  lanes,
  handle,
  clock,
  log,
  closing,
}: DispatcherOptions<E>): Dispatcher {
  const consumers = new Set<Consumer>();

  /** The consumer with a free place that has the least to do. */
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
    if (consumers.delete(consumer)) consumer.gone();
  }

  async function run(consumer: Consumer, lane: Lane<E>): Promise<number> {
    const entries = lanes.take(lane, consumer.options.batch ?? 1);
    consumer.running += 1;
    // What waited in it may have been purged meanwhile.
    const rest = entries.length > 0 ? await handle(consumer.handler, lane, entries) : 0;
    consumer.running -= 1;
    settle(consumer);
    return rest;
  }

  /** Waits for the admission without taking jobs, so that they can still be purged, stored or given to others. */
  async function runAdmitted(
    consumer: Consumer,
    lane: Lane<E>,
    admit: NonNullable<ConsumeOptions['admit']>,
  ): Promise<number> {
    const { signal } = consumer.options;
    let leave: () => void;
    lane.admission = performance.now();
    try {
      leave = await admit(lane.name, signal);
    } catch (error) {
      if (signal.aborted) return 0;
      log.warn({ key: lane.name, error: String(error) }, 'queue.admission_failed');
      return ADMISSION_RETRY_MS;
    } finally {
      lane.admission = undefined;
    }
    try {
      return signal.aborted || closing.aborted ? 0 : await run(consumer, lane);
    } finally {
      leave();
    }
  }

  async function handOut(consumer: Consumer, lane: Lane<E>): Promise<void> {
    const { admit } = consumer.options;
    const rest = await (admit ? runAdmitted(consumer, lane, admit) : run(consumer, lane));
    if (rest > 0) await clock.sleep(rest, closing);
    lanes.release(lane);
    dispatch();
  }

  function dispatch(): void {
    while (!closing.aborted) {
      const consumer = leastBusy();
      const lane = consumer && lanes.next();
      if (!lane) return;
      void handOut(consumer, lane);
    }
  }

  return {
    get size() {
      return consumers.size;
    },
    dispatch,
    consume(handler, options) {
      if (options.signal.aborted) return Promise.resolve();
      return new Promise((gone) => {
        const consumer: Consumer = { handler, options, running: 0, gone };
        consumers.add(consumer);
        options.signal.addEventListener('abort', () => settle(consumer), { once: true });
      });
    },
  };
}
