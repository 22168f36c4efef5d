import { setImmediate as nextTurn } from 'node:timers/promises';
import { Unavailable } from '@wellspring/core/unavailable';

/** Of one batch. */
const MOST_ROWS = 1_000;

/** Where a write belongs. */
export interface Place {
  /** Writes with the same key are never in the same batch, and take effect in their order. */
  key?: string;
  /** That it writes. */
  rows: number;
}

interface Waiting<W, R> extends PromiseWithResolvers<R> {
  write: W;
  place: Place;
}

/**
 * Gives a function that carries out a write with those of others: all that come up within a turn, and while another
 * batch is under way. What is journaled costs a server about the same for ten rows as for one.
 * @param writeAll gives what came of each. When it throws, but not Unavailable, one of them must be to blame and none
 * be done: each is carried out by itself
 */
export function shareWrites<W, R>(
  writeAll: (batch: readonly W[]) => Promise<R[]>,
): (write: W, place: Place) => Promise<R> {
  let waiting: Waiting<W, R>[] = [];
  let isWriting = false;

  function take(): Waiting<W, R>[] {
    const batch: Waiting<W, R>[] = [];
    const later: Waiting<W, R>[] = [];
    const keys = new Set<string>();
    let sum = 0;
    for (const one of waiting) {
      const { key, rows } = one.place;
      const fits = batch.length === 0 || sum + rows <= MOST_ROWS;
      if (fits && (key === undefined || !keys.has(key))) {
        sum += rows;
        batch.push(one);
      } else {
        later.push(one);
      }
      if (key !== undefined) keys.add(key);
    }
    waiting = later;
    return batch;
  }

  async function carryOut(batch: readonly Waiting<W, R>[]): Promise<void> {
    try {
      const results = await writeAll(batch.map(({ write }) => write));
      for (const [index, { resolve }] of batch.entries()) resolve(results[index]!);
    } catch (error) {
      if (batch.length > 1 && !(error instanceof Unavailable)) {
        for (const one of batch) await carryOut([one]);
      } else {
        for (const { reject } of batch) reject(error);
      }
    }
  }

  async function write(): Promise<void> {
    isWriting = true;
    await nextTurn();
    while (waiting.length > 0) await carryOut(take());
    isWriting = false;
  }

  return (wanted, place) => {
    const one = { write: wanted, place, ...Promise.withResolvers<R>() };
    waiting.push(one);
    if (!isWriting) void write();
    return one.promise;
  };
}
