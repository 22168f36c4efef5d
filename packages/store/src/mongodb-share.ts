import { setImmediate as nextTurn } from 'node:timers/promises';
import { Unavailable } from '@wellspring/core/unavailable';

/** Where a request belongs. */
export interface Place {
  /** Those with the same key are never in the same batch, and with one batch at a time take effect in their order. */
  key?: string;
  /** What it adds to the size of a batch; default 1. */
  size?: number;
}

export interface Sharing {
  /** Batches under way at a time. */
  batches: number;
  /** The greatest size of a batch of more than one. */
  most: number;
}

interface Waiting<W, R> extends PromiseWithResolvers<R> {
  wanted: W;
  place: Place;
}

/**
 * Gives a function that has a request carried out together with those of others: all that come up within a turn, and
 * while batches are under way. One statement costs a server about the same for ten rows as for one. A request is begun
 * after the call, so that a read sees what was written before.
 * @param carryOut gives what came of each. What it throws befalls the whole batch; only when it was refused before
 * anything was sent, one of them is to blame, and each is carried out by itself
 */
export function shareStatements<W, R>(
  { batches, most }: Sharing,
  carryOut: (batch: readonly W[]) => Promise<R[]>,
): (wanted: W, place?: Place) => Promise<R> {
  let waiting: Waiting<W, R>[] = [];
  let underWay = 0;

  function take(): Waiting<W, R>[] {
    const batch: Waiting<W, R>[] = [];
    const later: Waiting<W, R>[] = [];
    const keys = new Set<string>();
    let sum = 0;
    for (const one of waiting) {
      const { key, size = 1 } = one.place;
      const fits = batch.length === 0 || sum + size <= most;
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

  function giveUp(some: readonly Waiting<W, R>[], error: Unavailable): void {
    const given = new Set(some);
    for (const one of waiting) if (given.has(one)) one.reject(error);
    waiting = waiting.filter((one) => !given.has(one));
  }

  async function settle(batch: readonly Waiting<W, R>[]): Promise<void> {
    const behind = [...waiting];
    try {
      const results = await carryOut(batch.map(({ wanted }) => wanted));
      for (const [index, { resolve }] of batch.entries()) resolve(results[index]!);
    } catch (error) {
      if (batch.length > 1 && isRefusedUnsent(error)) {
        for (const one of batch) await settle([one]);
        return;
      }
      for (const { reject } of batch) reject(error);
      // They have waited for as long already, and nothing of them was sent.
      if (error instanceof Unavailable) giveUp(behind, error);
    }
  }

  async function work(): Promise<void> {
    underWay += 1;
    await nextTurn();
    while (waiting.length > 0) await settle(take());
    underWay -= 1;
  }

  return (wanted, place = {}) => {
    const one = { wanted, place, ...Promise.withResolvers<R>() };
    waiting.push(one);
    if (underWay < batches) void work();
    return one.promise;
  };
}

/** What a server says has a code, and may come when a part is done. */
const isRefusedUnsent = (error: unknown): boolean =>
  !(error instanceof Unavailable) && (error as { code?: unknown }).code === undefined;
