import { randomUUID } from 'node:crypto';
import type { Db, Document, Collection as Stored } from '@wellspring/mongodb/client';
import { duplicatesOf, type Refusal, translateErrors } from '@wellspring/mongodb/errors';
import { checkIndexed } from '../check-indexed.ts';
import {
  type Collection,
  type CollectionDefinition,
  ConflictError,
  type ListOptions,
  type Row,
  type Where,
} from '../port.ts';
import { createBatches } from './batches.ts';
import { conflictingFields, makeIndexes } from './indexes.ts';
import { createCodec, decodeString, encodeString, type StoredRow } from './row.ts';
import { shareStatements } from './share-statements.ts';
import { filterOf, storedName } from './where.ts';

/** Called with the rows of every read before they are returned. */
export type BeforeReading = (rows: readonly StoredRow[]) => Promise<void>;

/** Rows per batch of a cursor. */
const PAGE_SIZE = 1_000;
/** Concurrent statements that read by id, and the ids of one. */
const MAX_BATCHES = 2;
const MAX_IDS = 200;

export function createCollection<T extends Row>(
  db: Db,
  definition: CollectionDefinition<T>,
  beforeReading: BeforeReading = async () => {},
): Collection<T> {
  const { name } = definition;
  const stored = db.collection<StoredRow>(name);
  const codec = createCodec(definition);
  let preparing: Promise<void> | undefined;
  /** By condition: the last claim. Concurrent ones of this process would only compete for the same rows. */
  const claiming = new Map<string, Promise<void>>();

  /** Resolves when the indexes exist; the next call retries after a failure. */
  function prepared(): Promise<void> {
    preparing ??= makeIndexes(db, stored, definition, codec).catch((error) => {
      preparing = undefined;
      throw error;
    });
    return preparing;
  }

  async function execute<R>(work: (rows: Stored<StoredRow>) => Promise<R>): Promise<R> {
    await prepared();
    return translateErrors(work(stored));
  }

  const batches = createBatches(execute, definition.insertsMayWait);

  /** @throws Error if the refusal is not a conflict */
  function conflictOf({ isDuplicate, message }: Refusal): ConflictError {
    if (!isDuplicate) throw new Error(`${name}: ${message}`);
    return new ConflictError(name, conflictingFields(definition, message));
  }

  /** @throws ConflictError */
  async function write<R>(work: (rows: Stored<StoredRow>) => Promise<R>): Promise<R> {
    try {
      return await execute(work);
    } catch (error) {
      const [duplicate] = duplicatesOf(error);
      throw conflictOf(duplicate!);
    }
  }

  async function select({ where, orderBy, order = 'desc', limit }: ListOptions<T>, only?: Document) {
    checkIndexed(definition, orderBy ?? 'id');
    if (limit === 0) return [];
    const filter = filterOf(definition, where);
    const direction = order === 'asc' ? 1 : -1;
    const rows = await execute((all) =>
      all
        .find(filter, {
          sort: { [storedName(orderBy ?? 'id')]: direction, _id: direction },
          batchSize: Math.min(limit ?? PAGE_SIZE, PAGE_SIZE),
          ...(limit !== undefined && { limit }),
          ...(only && { projection: only }),
        })
        .toArray(),
    );
    return rows as StoredRow[];
  }

  const withoutTexts = Object.fromEntries((definition.texts ?? []).map((field) => [field, 0]));

  async function read(options: ListOptions<T>): Promise<T[]> {
    const rows = await select(options, options.texts === false ? withoutTexts : undefined);
    await beforeReading(rows);
    return rows.map(codec.row);
  }

  /** Concurrent reads by id share statements, and a call sees all earlier writes. */
  const readShared = shareStatements(
    { batches: MAX_BATCHES, maxSize: MAX_IDS },
    async (ids: readonly string[]) => {
      const filter = { _id: { $in: [...new Set(ids)] } };
      const found = await execute((all) => all.find(filter, { batchSize: PAGE_SIZE }).toArray());
      const byId = new Map(found.map((row) => [row._id, row as StoredRow]));
      return ids.map((id) => byId.get(id));
    },
  );

  async function readOne(id: string): Promise<StoredRow | undefined> {
    const found = await readShared(encodeString(id));
    if (found) await beforeReading([found]);
    return found;
  }

  const idsOf = async (options: ListOptions<T>) => (await select(options, { _id: 1 })).map(({ _id }) => _id);

  /** Sets the fields, removes undefined ones, and increments the version. */
  function changeOf(fields: Partial<T>, hidden: Document): Document {
    const set: Document = { ...hidden };
    const unset: Document = {};
    for (const [field, value] of Object.entries(fields)) {
      if (field === 'id') continue;
      const encoded = codec.field(field, value);
      if (encoded === undefined) unset[field] = '';
      else set[field] = encoded;
    }
    return {
      $inc: { _v: 1 },
      ...(Object.keys(set).length > 0 && { $set: set }),
      ...(Object.keys(unset).length > 0 && { $unset: unset }),
    };
  }

  /** Patches a row whose unique index also covers unchanged fields. */
  async function patchUnique(id: string, fields: Partial<T>, filter: Document): Promise<boolean> {
    for (;;) {
      const found = await execute((all) => all.findOne({ $and: [{ _id: encodeString(id) }, filter] }));
      if (!found) return false;
      const change = changeOf(fields, codec.uniques(id, { ...codec.row(found), ...fields })!);
      const { matchedCount } = await write((all) => all.updateOne({ _id: found._id, _v: found._v }, change));
      if (matchedCount === 1) return true;
    }
  }

  /** Patches the rows that still match, each atomically; returns the patched rows. */
  async function take(
    ids: string[],
    filter: Document,
    fields: Partial<T>,
    texts: boolean,
  ): Promise<StoredRow[]> {
    const reading = { batchSize: PAGE_SIZE, ...(!texts && { projection: withoutTexts }) };
    const isUnique = definition.indexes.some(
      (index) => index.unique && index.fields.some((field) => Object.hasOwn(fields, field)),
    );
    if (isUnique) {
      const taken: string[] = [];
      for (const id of ids) if (await patchUnique(decodeString(id), fields, filter)) taken.push(id);
      return execute((all) => all.find({ _id: { $in: taken } }, reading).toArray());
    }
    const token = randomUUID();
    const { matchedCount } = await write((all) =>
      all.updateMany({ $and: [{ _id: { $in: ids } }, filter] }, changeOf(fields, { _claim: token })),
    );
    if (matchedCount === 0) return [];
    return execute((all) => all.find({ _id: { $in: ids }, _claim: token }, reading).toArray());
  }

  async function claimNow(
    { limit, texts = true, ...options }: ListOptions<T> & { where: Where<T> },
    fields: Partial<T>,
  ) {
    const filter = filterOf(definition, options.where);
    const claimed: T[] = [];
    for (;;) {
      const ids = await idsOf({ ...options, ...(limit !== undefined && { limit: limit - claimed.length }) });
      if (ids.length === 0) return claimed;
      const rows = new Map((await take(ids, filter, fields, texts)).map((row) => [row._id, row]));
      for (const id of ids) if (rows.has(id)) claimed.push(codec.row(rows.get(id)!));
      // Other claimers took some: there may be more matching rows.
      if (rows.size === ids.length) return claimed;
    }
  }

  return {
    async get(id) {
      const found = await readOne(id);
      return found && codec.row(found);
    },
    async getVersioned(id) {
      const found = await readOne(id);
      return found && { row: codec.row(found), version: found._v };
    },
    find: async (where) => (await read({ where, order: 'asc', limit: 1 }))[0],
    list: (options = {}) => read(options),
    async count(where, atMost) {
      if (atMost !== undefined && atMost <= 0) return 0;
      const filter = filterOf(definition, where);
      // Checking for one row is cheaper than counting.
      if (atMost === 1)
        return (await execute((all) => all.findOne(filter, { projection: { _id: 1 } }))) ? 1 : 0;
      return execute((all) => all.countDocuments(filter, atMost === undefined ? {} : { limit: atMost }));
    },
    async insert(row) {
      const [refused] = await batches.insert([codec.document(row, 1)]);
      if (refused) throw conflictOf(refused);
    },
    async insertMany(rows) {
      if (rows.length === 0) return [];
      const taken = await batches.insert(rows.map((row) => codec.document(row, 1)));
      for (const one of taken) conflictOf(one);
      const refused = new Set(taken.map(({ index }) => index));
      return rows.filter((_, index) => !refused.has(index)).map(({ id }) => id);
    },
    async replace(row, ifVersion) {
      const { _id, ...document } = codec.document(row, ifVersion + 1);
      const { matchedCount } = await write((all) => all.replaceOne({ _id, _v: ifVersion }, document));
      return matchedCount === 1;
    },
    async patch(id, fields, where) {
      const filter = filterOf(definition, where);
      const hidden = codec.uniques(id, fields);
      const _id = encodeString(id);
      await batches.inserted(_id);
      if (!hidden) return patchUnique(id, fields, filter);
      const result = await batches.update({ _id, filter, change: changeOf(fields, hidden) });
      if (typeof result !== 'boolean') throw conflictOf(result);
      return result;
    },
    async increment(id, by, initial) {
      for (;;) {
        const { matchedCount } = await write((all) =>
          all.updateOne({ _id: encodeString(id) }, { $inc: { ...by, _v: 1 } as Document }),
        );
        if (matchedCount === 1) return;
        const sums = Object.entries(by).map(([field, n]) => [
          field,
          Number(initial[field as keyof T] ?? 0) + Number(n),
        ]);
        try {
          await write((all) =>
            all.insertOne(codec.document({ ...initial, ...Object.fromEntries(sums), id }, 1)),
          );
          return;
        } catch (error) {
          // Another process has inserted it meanwhile.
          if (!(error instanceof ConflictError) || error.fields.join() !== 'id') throw error;
        }
      }
    },
    async remove(id) {
      const { deletedCount } = await execute((all) => all.deleteOne({ _id: encodeString(id) }));
      return deletedCount === 1;
    },
    async removeWhere(where, limit) {
      const filter = filterOf(definition, where);
      if (limit === undefined) return (await execute((all) => all.deleteMany(filter))).deletedCount;
      for (let removed = 0; ; ) {
        const ids = await idsOf({ where, order: 'asc', limit: limit - removed });
        if (ids.length === 0) return removed;
        const { deletedCount } = await execute((all) =>
          all.deleteMany({ $and: [{ _id: { $in: ids } }, filter] }),
        );
        removed += deletedCount;
        if (deletedCount === ids.length) return removed;
      }
    },
    claim(options, fields) {
      const key = JSON.stringify(options.where);
      const claimed = (claiming.get(key) ?? Promise.resolve()).then(() => claimNow(options, fields));
      const forget = () => {
        if (claiming.get(key) === ended) claiming.delete(key);
      };
      const ended = claimed.then(forget, forget);
      claiming.set(key, ended);
      return claimed;
    },
  };
}
