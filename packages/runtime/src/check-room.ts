import { conflict } from '@wellspring/core/problem';
import type { Collection, Row, Where } from '@wellspring/store/port';

/**
 * Bounds the rows of an owner that a list without pages shows at once. Creations at the same moment may exceed the limit
 * by their number.
 * @param what in the plural
 * @throws Problem 409
 */
export async function checkRoom<T extends Row>(
  rows: Pick<Collection<T>, 'count'>,
  where: Where<T>,
  limit: number,
  what: string,
): Promise<void> {
  if ((await rows.count(where, limit)) < limit) return;
  throw conflict('limit_reached', `The owner has ${limit} ${what}, and cannot have more.`);
}
