import type { Document } from '@wellspring/mongodb/client';
import type { StoredRow } from './row.ts';
import { shareStatements } from './share-statements.ts';

const MAX_BATCHES = 2;
const MAX_IDS = 200;
/** The server searches an index for each. */
const MAX_LISTS = 50;

/** Reads of one collection that share statements. A call sees all earlier writes. */
export interface Reads {
  byId(_id: string): Promise<StoredRow | undefined>;
  /** Matching rows by descending id; see canShare. */
  matching(filter: Document): Promise<StoredRow[]>;
}

/** @param find returns matching rows by descending id */
export function createReads(find: (filter: Document) => Promise<StoredRow[]>): Reads {
  const byId = shareStatements({ batches: MAX_BATCHES, maxSize: MAX_IDS }, async (ids: readonly string[]) => {
    const found = await find({ _id: { $in: [...new Set(ids)] } });
    const rows = new Map(found.map((row) => [row._id, row]));
    return ids.map((id) => rows.get(id));
  });
  const matching = shareStatements(
    { batches: MAX_BATCHES, maxSize: MAX_LISTS },
    async (filters: readonly Document[]) => {
      const rows = await find(filters.length === 1 ? filters[0]! : { $or: [...filters] });
      return filters.length === 1 ? [rows] : filters.map((filter) => rows.filter(matcherOf(filter)));
    },
  );
  return { byId, matching };
}

const isText = (value: unknown) => typeof value === 'string';

/** True if the rows of a shared result can be matched locally: each condition is equality with strings. */
export const canShare = (filter: Document): boolean => {
  const conditions = Object.values(filter);
  return (
    conditions.length > 0 &&
    conditions.every(({ $eq, $in }) => isText($eq) || (Array.isArray($in) && $in.every(isText)))
  );
};

function matcherOf(filter: Document): (row: StoredRow) => boolean {
  const conditions = Object.entries(filter).map(
    ([field, { $eq, $in }]) => [field, new Set($in ?? [$eq])] as const,
  );
  return (row) => conditions.every(([field, values]) => values.has(row[field]));
}
