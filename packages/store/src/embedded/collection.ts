import type { Database, SQLInputValue } from '@wellspring/sqlite/database';
import {
  type Collection,
  type CollectionDefinition,
  ConflictError,
  type ListOptions,
  type Row,
  type Versioned,
  type Where,
} from '../port.ts';
import { columnValue, createCodec, placeholderOf, type StoredRow } from './row.ts';
import { columnOf, indexedFields, keyOf, storedFields, tableOf, textColumnOf } from './schema.ts';
import { type Condition, compileWhere, orderColumn } from './where.ts';

/** A collection with writes that can be part of a larger transaction. */
export interface EmbeddedCollection<T extends Row> extends Collection<T> {
  /** Within a transaction. @param version default 1 @throws ConflictError */
  insertNow(row: T, version?: number): void;
  /**
   * Within a transaction: returns false for another version, or if a value of the stored row is not within its limit.
   * Version 0 inserts.
   */
  putNow(row: T, ifVersion: number, atMost: { [K in keyof T]?: number }): boolean;
  /** Within a transaction. */
  removeNow(id: string): boolean;
}

/** SQLite's message names the columns: `UNIQUE constraint failed: c_users.f_username`. */
function asConflict(error: unknown, collection: string): unknown {
  const { code, message } = error as { code?: string; message?: string };
  const match = code === 'ERR_SQLITE_ERROR' && /^UNIQUE constraint failed: (.*)$/.exec(message ?? '');
  if (!match) return error;
  const fields = match[1]!.split(', ').map((column) => column.replace(/^.*\./, '').replace(/^f_/, ''));
  return new ConflictError(collection, fields.includes('id') ? ['id'] : fields);
}

/** @param visible an SQL condition for the rows that are read; default: all */
export function createCollection<T extends Row>(
  db: Database,
  definition: CollectionDefinition<T>,
  visible: () => string | undefined = () => undefined,
): EmbeddedCollection<T> {
  const table = tableOf(definition);
  const fields = indexedFields(definition);
  const textFields = definition.texts ?? [];
  const stored = storedFields(db, definition);
  const codec = createCodec<T>({ texts: textFields, key: keyOf(definition), stored, written: fields });
  const known = ['rowid', 'id', 'version', 'doc', ...stored.map(columnOf)];
  const all = [...known, ...textFields.map(textColumnOf)].join(', ');
  const withoutTexts = [...known, ...textFields.map((field) => `'' AS ${textColumnOf(field)}`)].join(', ');
  const inserted = ['id', 'version', 'doc', ...textFields.map(textColumnOf), ...fields.map(columnOf)].join(
    ', ',
  );
  /** Makes the text of each statement once, not for each of thousands of rows. */
  function insertion(into: string): (placeholders: string) => string {
    const texts = new Map<string, string>();
    return (placeholders) => {
      const known = texts.get(placeholders);
      if (known) return known;
      const sql = `${into}?, ?, ?${', ?'.repeat(textFields.length)}${placeholders})`;
      texts.set(placeholders, sql);
      return sql;
    };
  }
  const insertions = {
    insert: insertion(`INSERT INTO ${table} (${inserted}) VALUES (`),
    insertNew: insertion(`INSERT OR IGNORE INTO ${table} (${inserted}) VALUES (`),
  };
  const GET = `SELECT ${all} FROM ${table} WHERE id = ?`;

  function conditionOf(where: Where<T> = {}): Condition {
    const condition = compileWhere(definition, where);
    const more = visible();
    if (more === undefined) return condition;
    return { ...condition, sql: condition.sql === '' ? `WHERE ${more}` : `${condition.sql} AND ${more}` };
  }

  function getStored(id: string): StoredRow | undefined {
    const more = visible();
    const sql = more === undefined ? GET : `${GET} AND ${more}`;
    return db.statement(sql).get(id) as unknown as StoredRow | undefined;
  }

  function select({ where, orderBy, order = 'desc', limit, texts = true }: ListOptions<T>): StoredRow[] {
    const by = orderColumn(definition, orderBy ?? 'id', where);
    const condition = conditionOf(where);
    const values: SQLInputValue[] = [...condition.values];
    const orders = by === 'id' ? `id ${order}` : `${by} ${order}, id ${order}`;
    let sql = `SELECT ${texts ? all : withoutTexts} FROM ${table} ${condition.sql} ORDER BY ${orders}`;
    if (limit !== undefined) {
      sql += ' LIMIT ?';
      values.push(limit);
    }
    return db.statement(sql).all(...values) as unknown as StoredRow[];
  }

  /** @throws ConflictError */
  function guarded<R>(work: () => R): R {
    try {
      return work();
    } catch (error) {
      throw asConflict(error, definition.name);
    }
  }

  /** Values of the columns `inserted`, and the placeholders of the indexed fields. */
  function columnsOf(row: T, version: number): { values: SQLInputValue[]; placeholders: string } {
    const values: SQLInputValue[] = [row.id, version, codec.doc(row), ...codec.texts(row)];
    let placeholders = '';
    for (const field of fields) placeholders += `, ${placeholderOf(columnValue(row[field]), values)}`;
    return { values, placeholders };
  }

  /** Returns the number of rows inserted. */
  function insertRow(sqlOf: (placeholders: string) => string, row: T, version = 1): number {
    const { values, placeholders } = columnsOf(row, version);
    return Number(db.statement(sqlOf(placeholders)).run(...values).changes);
  }

  const insertNow = (row: T, version?: number): void => {
    guarded(() => insertRow(insertions.insert, row, version));
  };

  const insertNewNow = (row: T): boolean => insertRow(insertions.insertNew, row) === 1;

  /** Returns the new row. Sets only changed columns: each updates its indexes, and texts are large. */
  function changeNow(stored: StoredRow, change: Partial<T>): T {
    const before = codec.row(stored);
    const row = { ...before, ...change, id: stored.id };
    const values: SQLInputValue[] = [codec.doc(row)];
    let sets = 'doc = ?';
    for (const field of Object.keys(change) as (keyof T & string)[]) {
      if (codec.isText(field)) {
        sets += `, ${textColumnOf(field)} = ?`;
        values.push(codec.text(row, field));
      } else if (fields.includes(field)) {
        const value = columnValue(row[field]);
        if (value !== columnValue(before[field]))
          sets += `, ${columnOf(field)} = ${placeholderOf(value, values)}`;
      }
    }
    values.push(stored.rowid);
    const sql = `UPDATE ${table} SET version = version + 1, ${sets} WHERE rowid = ?`;
    guarded(() => db.statement(sql).run(...values));
    return row;
  }

  function replaceNow(row: T, ifVersion: number, atMost: { [K in keyof T]?: number } = {}): boolean {
    const values: SQLInputValue[] = [codec.doc(row), ...codec.texts(row)];
    let sets = ['doc', ...textFields.map(textColumnOf)].map((column) => `${column} = ?`).join(', ');
    for (const field of fields)
      sets += `, ${columnOf(field)} = ${placeholderOf(columnValue(row[field]), values)}`;
    values.push(row.id, ifVersion);
    let sql = `UPDATE ${table} SET version = version + 1, ${sets} WHERE id = ? AND version = ?`;
    for (const [field, limit] of Object.entries(atMost)) {
      sql += ` AND json_extract(doc, '$.${field}') <= ?`;
      values.push(limit as number);
    }
    return guarded(() => db.statement(sql).run(...values).changes === 1);
  }

  const removeNow = (id: string): boolean =>
    db.statement(`DELETE FROM ${table} WHERE id = ?`).run(id).changes === 1;

  return {
    insertNow,
    putNow: (row, ifVersion, atMost) =>
      ifVersion === 0 ? insertNewNow(row) : replaceNow(row, ifVersion, atMost),
    async get(id) {
      const stored = getStored(id);
      return stored && codec.row(stored);
    },
    async getVersioned(id): Promise<Versioned<T> | undefined> {
      const stored = getStored(id);
      return stored && { row: codec.row(stored), version: stored.version };
    },
    async find(where) {
      const [stored] = select({ where, order: 'asc', limit: 1 });
      return stored && codec.row(stored);
    },
    async list(options = {}) {
      return select(options).map(codec.row);
    },
    async count(where, atMost = -1) {
      const { sql, values } = conditionOf(where);
      const counted = db.statement(`SELECT count(*) AS n FROM (SELECT 1 FROM ${table} ${sql} LIMIT ?)`);
      return (counted.get(...values, atMost) as { n: number }).n;
    },
    insert: (row) => db.writeOne(() => insertNow(row)),
    insertMany(rows) {
      const insert = () => rows.filter(insertNewNow).map(({ id }) => id);
      return rows.length === 1 ? db.writeOne(insert) : db.write(insert);
    },
    replace: (row, ifVersion) => db.writeOne(() => replaceNow(row, ifVersion)),
    patch: (id, fields, where) =>
      db.writeOne(() => {
        const condition = conditionOf(where);
        const and = condition.sql === '' ? 'WHERE id = ?' : `${condition.sql} AND id = ?`;
        const found = db.statement(`SELECT ${all} FROM ${table} ${and}`).get(...condition.values, id);
        if (!found) return false;
        changeNow(found as unknown as StoredRow, fields);
        return true;
      }),
    increment: (id, by, initial) =>
      db.write(() => {
        const stored = getStored(id);
        const row = (stored ? codec.row(stored) : initial) as Record<string, unknown> & T;
        const sums = Object.entries(by).map(([field, n]) => [field, Number(row[field] ?? 0) + Number(n)]);
        if (stored) changeNow(stored, Object.fromEntries(sums));
        else insertNow({ ...row, ...Object.fromEntries(sums), id });
      }),
    removeNow,
    remove: (id) => db.writeOne(() => removeNow(id)),
    removeWhere: (where, limit = -1) =>
      db.writeOne(() => {
        const { sql, values } = conditionOf(where);
        const removal = db.statement(
          `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} ${sql} LIMIT ?)`,
        );
        return Number(removal.run(...values, limit).changes);
      }),
    claim: (options, fields) => db.write(() => select(options).map((stored) => changeNow(stored, fields))),
  };
}
