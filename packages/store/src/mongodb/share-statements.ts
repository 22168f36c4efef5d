import { setImmediate as nextTurn } from 'node:timers/promises';
import { Unavailable } from '@wellspring/core/unavailable';

/** How a request may be batched. */
export interface Batching {
  /** Requests with the same key are never in one batch; with one batch at a time they keep their order. */
  key?: string;
  /** Contribution to the size of a batch; default 1. */
  size?: number;
}

export interface Sharing {
  /** Concurrent batches. */
  batches: number;
  /** Size limit of a batch; a single larger request is a batch by itself. */
  maxSize: number;
  /** Time that a batch waits for further requests; without it, only those of the same turn are waited for. */
  delay?: () => Promise<unknown>;
}

interface Waiting<W, R> extends PromiseWithResolvers<R> {
  request: W;
  batching: Batching;
}

/**
 * Batches the requests of a turn, and those that arrive while batches are in progress, into one statement: it costs the
 * server about as much for ten rows as for one. A request is sent after the call, so a read sees earlier writes.
 * @param execute returns one result per request. An error rejects the whole batch; if it occurred before sending, each
 * request is retried on its own
 */
export function shareStatements<W, R>(
  { batches, maxSize, delay = nextTurn }: Sharing,
  execute: (batch: readonly W[]) => Promise<R[]>,
): (request: W, batching?: Batching) => Promise<R> {
  let waiting: Waiting<W, R>[] = [];
  let inProgress = 0;

  function take(): Waiting<W, R>[] {
    const batch: Waiting<W, R>[] = [];
    const later: Waiting<W, R>[] = [];
    const keys = new Set<string>();
    let sum = 0;
    for (const one of waiting) {
      const { key, size = 1 } = one.batching;
      const fits = batch.length === 0 || sum + size <= maxSize;
      if (fits && (key === undefined || !keys.has(key))) {
        sum += size;
        batch.push(one);
      } else {
        later.push(one);
      }
      if (key !== undefined) keys.add(key);
    }
    waiting = later;
    return batch;
  }

  function rejectWaiting(some: readonly Waiting<W, R>[], error: Unavailable): void {
    const rejected = new Set(some);
    for (const one of waiting) if (rejected.has(one)) one.reject(error);
    waiting = waiting.filter((one) => !rejected.has(one));
  }

  async function settle(batch: readonly Waiting<W, R>[]): Promise<void> {
    const queued = [...waiting];
    try {
      const results = await execute(batch.map(({ request }) => request));
      for (const [index, { resolve }] of batch.entries()) resolve(results[index]!);
    } catch (error) {
      if (batch.length > 1 && isRefusedUnsent(error)) {
        for (const one of batch) await settle([one]);
        return;
      }
      for (const { reject } of batch) reject(error);
      // These have waited as long, and were not sent.
      if (error instanceof Unavailable) rejectWaiting(queued, error);
    }
  }

  async function work(): Promise<void> {
    inProgress += 1;
    await delay();
    while (waiting.length > 0) await settle(take());
    inProgress -= 1;
  }

  return (request, batching = {}) => {
    const one = { request, batching, ...Promise.withResolvers<R>() };
    waiting.push(one);
    if (inProgress < batches) void work();
    return one.promise;
  };
}

/** Errors of the server have a code, and may follow a partial execution. */
const isRefusedUnsent = (error: unknown): boolean =>
  !(error instanceof Unavailable) && (error as { code?: unknown }).code === undefined;
