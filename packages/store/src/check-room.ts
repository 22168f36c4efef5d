import { conflict } from '@wellspring/core/problem';
import type { Collection, Row, Where } from './port.ts';

/**
 * Bounds the rows of an owner that a list without pages shows at once. Creations at the same moment may exceed the limit
 * by their number.
 * @param what in the plural
 * @param wanted number of rows to create
 * @throws Problem 409
 */
export async function checkRoom<T extends Row>(
  rows: Pick<Collection<T>, 'count'>,
  where: Where<T>,
  limit: number,
  what: string,
  wanted = 1,
): Promise<void> {
  if ((await rows.count(where, limit)) + wanted <= limit) return;
  throw conflict('limit_reached', `The owner cannot have more than ${limit} ${what}.`);
}
