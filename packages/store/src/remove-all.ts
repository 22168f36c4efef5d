import { setTimeout as pause } from 'node:timers/promises';
import type { Collection, Row, Where } from './port.ts';

/** Rows per removal: few, so that other writes do not wait long for it. */
const REMOVAL_SIZE = 200;

/**
 * Removes the matching rows in batches. After each batch it pauses for as long as the batch took, which leaves half of the
 * time to other work.
 * @param signal stops it between two batches
 * @returns the number of removed rows
 */
export async function removeAll<T extends Row>(
  rows: Collection<T>,
  where: Where<T>,
  signal?: AbortSignal,
): Promise<number> {
  let total = 0;
  while (!signal?.aborted) {
    const began = performance.now();
    const removed = await rows.removeWhere(where, REMOVAL_SIZE);
    total += removed;
    if (removed < REMOVAL_SIZE) break;
    await pause(performance.now() - began, undefined, { signal }).catch(() => {});
  }
  return total;
}
