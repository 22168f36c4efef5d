import type { Hold } from '@wellspring/core/byte-budget';
import { decodeCursor } from '@wellspring/core/cursor';
import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import { invalidParameter, unavailable } from '@wellspring/core/problem';
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
/** Bytes at which a page of large items ends. */
const MAX_PAGE_BYTES = 32 * 1024 * 1024;
/** Large items that a process reads at a time, before their size is known. */
const reads = createFairPermits({ total: 4 });

/** Large items of a list, whose size is known only when they are read. */
interface LargeItems<R, T> {
  /** Of the request; without room in it, the page ends. */
  hold: Hold;
  /** Of the request: once its response is closed, no further item is read. */
  signal: AbortSignal;
  /** @returns undefined: it was deleted meanwhile */
  read(row: R): Promise<T | undefined>;
  bytesOf(item: T): number;
}

/**
 * One page of the rows that match, newest first. `after` gives the next older page, `before` the next newer one;
 * the row of a cursor may have been deleted.
 * @param idField holds the ids that the items are shown with
 * @throws Problem 400 for a malformed cursor, and for both
 */
export const listPage = <T extends { id: string }, W extends object>(
  collection: Listable<T, W>,
  where: NoInfer<W>,
  input: PageInput,
  idField: keyof NoInfer<T> & string = 'id',
): Promise<Page<T>> => pageOf(collection, where, input, idField, async (rows) => rows);

/** The same, of items that are read for each row: the page is shorter when there is no memory for more. @throws Problem 503 */
export const listLarge = <R extends { id: string; owner_id: string }, T, W extends object>(
  collection: Listable<R, W>,
  where: NoInfer<W>,
  input: PageInput,
  items: LargeItems<R, T>,
): Promise<Page<T>> => pageOf(collection, where, input, 'id', (rows) => readWithin(rows, items));

async function pageOf<R extends { id: string }, T, W extends object>(
  collection: Listable<R, W>,
  where: W,
  { limit = DEFAULT_LIMIT, after, before }: PageInput,
  idField: keyof R & string,
  present: (rows: R[]) => Promise<T[]>,
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
  const data = await present(rows);
  // Rows may have been deleted between the two reads.
  return { data: newer ? data.reverse() : data, total_count: Math.max(total_count, data.length) };
}

/** Reads one by one, as far as there is memory. @throws Problem 503 without memory for one item, the reason of the signal */
async function readWithin<R extends { owner_id: string }, T>(
  rows: readonly R[],
  { hold, signal, read, bytesOf }: LargeItems<R, T>,
): Promise<T[]> {
  const items: T[] = [];
  let kept = 0;
  for (const row of rows) {
    const item = await withPermit(reads, row.owner_id, () => read(row), signal);
    if (item === undefined) continue;
    const bytes = bytesOf(item);
    if (!hold.take(bytes)) {
      if (items.length === 0) throw unavailable();
      break;
    }
    items.push(item);
    kept += bytes;
    if (kept >= MAX_PAGE_BYTES) break;
  }
  return items;
}
