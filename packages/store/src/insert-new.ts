import { type Collection, ConflictError, type Row, type Where } from './port.ts';

/**
 * Inserts a row with a random id; calls `make` until the id is free.
 * @throws ConflictError for another unique index
 */
export async function insertNew<T extends Row>(collection: Collection<T>, make: () => T): Promise<T> {
  for (;;) {
    const row = make();
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
 */
export async function findOrInsert<T extends Row>(
  collection: Collection<T>,
  where: Where<T>,
  make: () => T,
): Promise<T> {
  for (;;) {
    const existing = await collection.find(where);
    if (existing) return existing;
    try {
      return await insertNew(collection, make);
    } catch (error) {
      // Another call has inserted it: find it.
      if (!(error instanceof ConflictError)) throw error;
    }
  }
}
