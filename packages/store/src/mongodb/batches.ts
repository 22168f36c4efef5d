import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Document, Collection as Stored } from '@wellspring/mongodb/client';
import { type Refusal, refusalsOf } from '@wellspring/mongodb/errors';
import type { StoredRow } from './row.ts';
import { shareStatements } from './share-statements.ts';

/** One batch at a time; requests that arrive meanwhile form the next one. */
const SHARING = { batches: 1, maxSize: 8 * 1024 * 1024 };
/** Of inserts that may wait. */
const INSERT_DELAY_MS = 25;
/** Assumed bytes of a row without its texts. */
const ROW_BYTES = 8 * 1024;

interface Update {
  _id: string;
  filter: Document;
  change: Document;
}

/** Writes of one collection that share their statements. */
export interface Batches {
  /** Returns refusals by index in `documents`. @throws Unavailable */
  insert(documents: readonly StoredRow[]): Promise<Refusal[]>;
  /** Resolves when a pending insert of this document has ended: a later request must not overtake it. */
  inserted(_id: string): Promise<void>;
  /** Whether the document existed and matched, or the refusal. @throws Unavailable: it may have been executed */
  update(update: Update): Promise<boolean | Refusal>;
}

/**
 * @param execute runs a statement. @throws Unavailable
 * @param insertsMayWait inserts are delayed to share statements
 */
export function createBatches(
  execute: <R>(work: (rows: Stored<StoredRow>) => Promise<R>) => Promise<R>,
  insertsMayWait = false,
): Batches {
  async function insertAll(batch: readonly (readonly StoredRow[])[]): Promise<Refusal[][]> {
    const refused = await execute((rows) => rows.insertMany(batch.flat(), { ordered: false })).then(
      () => [],
      refusalsOf,
    );
    let end = 0;
    return batch.map(({ length }) => {
      const begin = end;
      end += length;
      return refused
        .filter(({ index }) => index >= begin && index < begin + length)
        .map((one) => ({ ...one, index: one.index - begin }));
    });
  }

  /** @returns an outcome each; undefined if it is unknown */
  async function updateAll(batch: readonly Update[]): Promise<(boolean | Refusal | undefined)[]> {
    // Identifies the documents that matched.
    const mark = batch.length > 1 ? { _patched: randomUUID() } : undefined;
    const operations = batch.map(({ _id, filter, change }) => ({
      updateOne: {
        filter: { $and: [{ _id }, filter] },
        update: mark ? { ...change, $set: { ...change.$set, ...mark } } : change,
      },
    }));
    const { matched, refused } = await execute((rows) => rows.bulkWrite(operations, { ordered: false })).then(
      ({ matchedCount }) => ({ matched: matchedCount, refused: [] }),
      (error) => ({ matched: error.result?.matchedCount, refused: refusalsOf(error) }),
    );
    if (matched === batch.length) return batch.map(() => true);
    const marked = new Set<string>();
    if (mark && matched !== 0) {
      const ids = batch.map(({ _id }) => _id);
      const projection = { _id: 1 };
      const found = await execute((rows) =>
        rows.find({ _id: { $in: ids }, ...mark }, { projection, batchSize: ids.length + 1 }).toArray(),
      );
      for (const { _id } of found) marked.add(_id);
    }
    const byIndex = new Map(refused.map((one) => [one.index, one]));
    // Another process has changed or removed some that matched, or the read was stale.
    const unmarked = matched > marked.size ? undefined : false;
    return batch.map(({ _id }, index) => byIndex.get(index) ?? (marked.has(_id) || unmarked));
  }

  const insertShared = shareStatements(
    insertsMayWait ? { ...SHARING, delay: () => pause(INSERT_DELAY_MS) } : SHARING,
    insertAll,
  );
  const updateShared = shareStatements(SHARING, updateAll);
  const inserting = new Map<string, Promise<unknown>>();

  async function insert(documents: readonly StoredRow[]): Promise<Refusal[]> {
    const inserted = insertShared(documents, {
      size: documents.reduce((sum, one) => sum + sizeOfTexts(one), 0),
    });
    for (const { _id } of documents) inserting.set(_id, inserted);
    try {
      return await inserted;
    } finally {
      for (const { _id } of documents) if (inserting.get(_id) === inserted) inserting.delete(_id);
    }
  }

  return {
    insert,
    async inserted(_id) {
      await inserting.get(_id)?.catch(() => {});
    },
    async update(one) {
      const size = sizeOfTexts(one.change.$set ?? {});
      const outcome = await updateShared(one, { key: one._id, size });
      if (outcome === undefined) throw new Unavailable('Another write hides the outcome of an update.');
      return outcome;
    },
  };
}

function sizeOfTexts(document: Document): number {
  let size = ROW_BYTES;
  for (const value of Object.values(document)) size += Number(value?.length ?? 0);
  return size;
}
