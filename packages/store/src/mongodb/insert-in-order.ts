import type { Collection as Stored } from '@wellspring/mongodb/client';
import { duplicatesOf, translateErrors } from '@wellspring/mongodb/errors';
import type { StoredRow } from './row.ts';

/** Inserts rows in order, so that no row is visible before its predecessors. Idempotent, also concurrently. */
export async function insertInOrder(
  collection: Stored<StoredRow>,
  rows: readonly StoredRow[],
): Promise<void> {
  for (let missing = rows; missing.length > 0; ) {
    const taken = await translateErrors(collection.insertMany(missing, { ordered: true })).then(
      () => [],
      duplicatesOf,
    );
    if (taken.length === 0) return;
    // Rows before the duplicate are inserted, and may have been deleted since: continue after it.
    const rest = missing.slice(taken[0]!.index + 1);
    const ids = rest.map(({ _id }) => _id);
    const there = await translateErrors(
      collection.find({ _id: { $in: ids } }, { projection: { _id: 1 }, batchSize: ids.length + 1 }).toArray(),
    );
    const found = new Set(there.map(({ _id }) => _id));
    missing = rest.filter(({ _id }) => !found.has(_id));
  }
}
