import type { Collection, Row, Where } from './port.ts';

interface Removal {
  /** Stops between two batches. */
  signal?: AbortSignal | undefined;
  /** Rows per removal: other writes wait for it. */
  batch?: number;
}

/** Removes the matching rows in batches, so that many rows block no other work. @returns their number */
export async function removeAll<T extends Row>(
  rows: Collection<T>,
  where: Where<T>,
  { signal, batch = 500 }: Removal = {},
): Promise<number> {
  let total = 0;
  for (;;) {
    const removed = signal?.aborted ? 0 : await rows.removeWhere(where, batch);
    total += removed;
    if (removed < batch) return total;
  }
}
