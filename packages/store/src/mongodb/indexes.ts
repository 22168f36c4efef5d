import { StartRefused } from '@wellspring/core/start-refused';
import type { Db, Collection as Stored } from '@wellspring/mongodb/client';
import { translateErrors } from '@wellspring/mongodb/errors';
import type { CollectionDefinition, Row } from '../port.ts';
import { type Codec, type StoredRow, uniqueField } from './row.ts';
import { storedName } from './where.ts';

/** Version of the layout; a database with a later one is refused. */
const LAYOUT = 1;
const BATCH_SIZE = 500;

interface Meta {
  _id: string;
  value: unknown;
}

type Fields = readonly string[];

/** Keeps values unique; queries do not name its hidden field. */
function uniqueIndex(fields: Fields) {
  const field = uniqueField(fields);
  // Sparse: rows written by a version that does not declare the index have no such field.
  return { name: field.slice(1), key: { [field]: 1 as const }, unique: true, sparse: true };
}

function plainIndex(fields: Fields) {
  // Ties are broken by id.
  const list = fields.includes('id') ? fields : [...fields, 'id'];
  return {
    name: `i_${fields.join('_')}`,
    key: Object.fromEntries(list.map((field) => [storedName(field), 1 as const])),
  };
}

/**
 * The indexes in MongoDB. Queries by the fields of a unique index use a plain one: its own, unless those of another index
 * begin with the same fields. The name describes the whole index, so a changed index has another name.
 */
function indexesOf<T extends Row>({ indexes }: CollectionDefinition<T>) {
  const unique = indexes.filter((index) => index.unique).map(({ fields }): Fields => fields);
  const plain = indexes.filter((index) => !index.unique).map(({ fields }): Fields => fields);
  const covers = (longer: Fields, fields: Fields) => fields.every((field, index) => longer[index] === field);
  const own = unique.filter(
    (fields) => ![...plain, ...unique].some((other) => other !== fields && covers(other, fields)),
  );
  return [...unique.map(uniqueIndex), ...[...plain, ...own].map(plainIndex)];
}

/** The fields of the unique index named in the server's message; default: the id. */
export function conflictingFields<T extends Row>(
  { indexes }: CollectionDefinition<T>,
  message: string,
): readonly string[] {
  const named = indexes.filter((index) => index.unique && message.includes(uniqueIndex(index.fields).name));
  return named.sort((a, b) => b.fields.length - a.fields.length)[0]?.fields ?? ['id'];
}

/**
 * Creates the indexes of the definition; others stay, since they may be those of a newer version. Idempotent, also
 * concurrently.
 * @throws StartRefused for a database of a later version, Error if rows violate a unique index
 */
export async function makeIndexes<T extends Row>(
  db: Db,
  stored: Stored<StoredRow>,
  definition: CollectionDefinition<T>,
  codec: Codec<T>,
): Promise<void> {
  const meta = db.collection<Meta>('meta');
  const key = `collection:${definition.name}`;
  const indexes = indexesOf(definition);
  const wanted = JSON.stringify(indexes);
  const known = await translateErrors(meta.find({ _id: { $in: ['layout', key] } }).toArray());
  const layout = known.find(({ _id }) => _id === 'layout')?.value;
  if (layout !== undefined && Number(layout) > LAYOUT) {
    throw new StartRefused(
      `The database has layout ${layout}; this version knows ${LAYOUT}. Use a newer version.`,
    );
  }
  if (known.find(({ _id }) => _id === key)?.value === wanted) return;

  await fillUniqueFields(stored, definition, codec);
  if (indexes.length > 0) {
    await translateErrors(stored.createIndexes(indexes)).catch((error: { code?: number }) => {
      if (error.code !== 11000) throw error;
      throw new Error(`Rows of ${definition.name} violate a unique index. Remove the duplicates.`, {
        cause: error,
      });
    });
  }
  for (const [_id, value] of [
    ['layout', LAYOUT],
    [key, wanted],
  ] as const) {
    await translateErrors(meta.updateOne({ _id }, { $set: { value } }, { upsert: true }));
  }
}

/** Drops the indexes that the definition does not declare, and returns their names. */
export async function dropStaleIndexes<T extends Row>(
  stored: Stored<StoredRow>,
  definition: CollectionDefinition<T>,
): Promise<string[]> {
  const declared = new Set(indexesOf(definition).map(({ name }) => name));
  const present = await translateErrors(stored.indexes()).catch((error: { code?: number }) => {
    // The collection does not exist yet.
    if (error.code === 26) return [];
    throw error;
  });
  const stale = present.flatMap(({ name = '' }) =>
    /^[iu]_/.test(name) && !declared.has(name) ? [name] : [],
  );
  for (const name of stale) await translateErrors(stored.dropIndex(name));
  return stale;
}

/** Adds the hidden fields of new unique indexes to existing rows. */
async function fillUniqueFields<T extends Row>(
  stored: Stored<StoredRow>,
  { indexes }: CollectionDefinition<T>,
  codec: Codec<T>,
): Promise<void> {
  const fields = indexes.filter(({ unique }) => unique).map((index) => uniqueField(index.fields));
  if (fields.length === 0) return;
  for (;;) {
    const missing = { $or: fields.map((field) => ({ [field]: { $exists: false } })) };
    const rows = await translateErrors(stored.find(missing).limit(BATCH_SIZE).toArray());
    if (rows.length === 0) return;
    const updates = rows.map((row) => ({
      // A concurrent write sets the field, too.
      updateOne: {
        filter: { _id: row._id, _v: row._v },
        update: { $set: codec.uniques(row._id, codec.row(row))! },
      },
    }));
    await translateErrors(stored.bulkWrite(updates, { ordered: false }));
  }
}
