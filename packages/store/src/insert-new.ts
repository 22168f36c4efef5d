import { type Collection, ConflictError, type Row } from './port.ts';

/**
 * Inserts a row under an id of its own: `make` is called again when another process has just taken the same id.
 * @throws ConflictError for any other unique index
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
