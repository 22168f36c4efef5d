import { decodeCursor } from '@wellspring/core/cursor';
import { invalidParameter } from '@wellspring/core/problem';
import type { Page } from './bind.ts';

export interface PageInput {
  limit?: number | undefined;
  after?: string | undefined;
  before?: string | undefined;
}

/** The part of a store's collection that a page needs; see `store/port`. */
interface Listable<T, W> {
  list(options: {
    where: W;
    orderBy: keyof NoInfer<T> & string;
    order: 'asc' | 'desc';
    limit: number;
  }): Promise<T[]>;
  count(where: W): Promise<number>;
}

export const DEFAULT_LIMIT = 10;
export const MAX_LIMIT = 100;

/**
 * One page of the rows that match, newest first. `after` gives the next older page, `before` the next newer one;
 * the row of a cursor may have been deleted.
 * @param idField holds the ids that the items are shown with
 * @throws Problem 400 for a malformed cursor, and for both
 */
export async function listPage<T extends { id: string }, W extends object>(
  collection: Listable<T, W>,
  where: NoInfer<W>,
  { limit = DEFAULT_LIMIT, after, before }: PageInput,
  idField: keyof NoInfer<T> & string = 'id',
): Promise<Page<T>> {
  if (after !== undefined && before !== undefined) {
    throw invalidParameter('before', 'Only one of after and before can be given.');
  }
  const newer = before !== undefined;
  const bound = newer
    ? { [idField]: { gt: decodeCursor(before, 'before') } }
    : after !== undefined
      ? { [idField]: { lt: decodeCursor(after, 'after') } }
      : {};
  const [rows, total_count] = await Promise.all([
    collection.list({
      where: { ...where, ...bound },
      orderBy: idField,
      order: newer ? 'asc' : 'desc',
      limit: Math.min(limit, MAX_LIMIT),
    }),
    collection.count(where),
  ]);
  // Rows may have been deleted between the two reads.
  return { data: newer ? rows.reverse() : rows, total_count: Math.max(total_count, rows.length) };
}
