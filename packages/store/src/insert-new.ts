import { type Collection, ConflictError, type Row } from './port.ts';

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
