import { type Collection, ConflictError, type Row } from './port.ts';

/**
 * Inserts a row with a random id; calls `make` until the id is free.
 * @throws ConflictError for another unique index
 */
export async function insertNew<T extends Row>(
  collection: Collection<T>,
  make: () => T | Promise<T>,
): Promise<T> {
  for (;;) {
    const row = await make();
    try {
      await collection.insert(row);
      return row;
    } catch (error) {
      if (!(error instanceof ConflictError) || error.fields.join() !== 'id') throw error;
    }
  }
}

/**
 * Finds the row with these values of a unique index, or inserts it. Of concurrent calls, one inserts.
 * @param where all fields of the index
 * @param make called only if no row exists; its error is passed on
 */
export async function findOrInsert<T extends Row>(
  collection: Collection<T>,
  where: Partial<T>,
  make: () => T | Promise<T>,
): Promise<T> {
  for (;;) {
    const existing = await collection.find(where);
    // A write that changes nothing: the one that inserted it may not have raised its revision.
    if (existing && (await collection.patch(existing.id, where))) return existing;
    try {
      return await insertNew(collection, make);
    } catch (error) {
      // Another call has inserted it: find it.
      if (!(error instanceof ConflictError)) throw error;
    }
  }
}
