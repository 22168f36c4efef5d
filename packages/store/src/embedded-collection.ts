import type { Database, SQLInputValue } from '@wellspring/sqlite/database';
import { columnOf, tableOf, textColumnOf } from './embedded-schema.ts';
import { checkIndexed, compileWhere } from './embedded-where.ts';
import {
  type Collection,
  type CollectionDefinition,
  ConflictError,
  type ListOptions,
  type Row,
  type Versioned,
  type Where,
} from './port.ts';

type Stored = { id: string; version: number; doc: string } & Record<string, string>;

/** A collection whose writes can also be made part of a larger transaction. */
export interface EmbeddedCollection<T extends Row> extends Collection<T> {
  /** Within a write of the database. @throws ConflictError */
  insertNow(row: T): void;
  /** Within a write: gives false when the version is another one. Version 0: inserts. */
  putNow(row: T, ifVersion: number): boolean;
}

/** SQLite's message names the columns: `UNIQUE constraint failed: c_users.f_username`. */
function asConflict(error: unknown, collection: string): unknown {
  const { code, message } = error as { code?: string; message?: string };
  const match = code === 'ERR_SQLITE_ERROR' && /^UNIQUE constraint failed: (.*)$/.exec(message ?? '');
  if (!match) return error;
  const fields = match[1]!.split(', ').map((column) => column.replace(/^.*\./, '').replace(/^f_/, ''));
  return new ConflictError(collection, fields.includes('id') ? ['id'] : fields);
}

export function createCollection<T extends Row>(
  db: Database,
  definition: CollectionDefinition<T>,
): EmbeddedCollection<T> {
  const table = tableOf(definition);
  const texts = definition.texts ?? [];
  const textColumns = texts.map(textColumnOf);
  const all = ['id', 'version', 'doc', ...textColumns].join(', ');
  const places = ['?', '1', '?', ...texts.map(() => '?')].join(', ');
  const INSERT = `INSERT INTO ${table} (${all}) VALUES (${places})`;
  const INSERT_NEW = `INSERT OR IGNORE INTO ${table} (${all}) VALUES (${places})`;
  const sets = ['doc = ?', ...textColumns.map((column) => `${column} = ?`)].join(', ');
  const REPLACE = `UPDATE ${table} SET version = version + 1, ${sets} WHERE id = ? AND version = ?`;
  const GET = `SELECT ${all} FROM ${table} WHERE id = ?`;

  /** The document: all but the texts. */
  const docOf = (row: T): string => {
    if (texts.length === 0) return JSON.stringify(row);
    const rest = { ...row } as Record<string, unknown>;
    for (const field of texts) delete rest[field];
    return JSON.stringify(rest);
  };
  const textsOf = (row: T): string[] => texts.map((field) => (row[field] as string | undefined) ?? '');

  function rowOf(stored: Stored): T {
    const row = JSON.parse(stored.doc) as T & Record<string, unknown>;
    for (const field of texts) (row as Record<string, unknown>)[field] = stored[`t_${field}`];
    return row;
  }

  const getStored = (id: string) => db.statement(GET).get(id) as Stored | undefined;

  function selectSql({ where, orderBy = 'id' as keyof T & string, order = 'desc', limit }: ListOptions<T>) {
    checkIndexed(definition, orderBy);
    const condition = compileWhere(definition, where);
    const by = orderBy === 'id' ? `id ${order}` : `${columnOf(orderBy)} ${order}, id ${order}`;
    const values: SQLInputValue[] = [...condition.values];
    let sql = `SELECT ${all} FROM ${table} ${condition.sql} ORDER BY ${by}`;
    if (limit !== undefined) {
      sql += ' LIMIT ?';
      values.push(limit);
    }
    return { sql, values };
  }

  const select = (options: ListOptions<T>): Stored[] => {
    const { sql, values } = selectSql(options);
    return db.statement(sql).all(...values) as Stored[];
  };

  function updateNow(row: T, ifVersion: number): boolean {
    return db.statement(REPLACE).run(docOf(row), ...textsOf(row), row.id, ifVersion).changes === 1;
  }

  const guarded = <R>(work: () => R): R => {
    try {
      return work();
    } catch (error) {
      throw asConflict(error, definition.name);
    }
  };

  function patchNow(id: string, fields: Partial<T>, where?: Where<T>): boolean {
    const condition = compileWhere(definition, { ...where, id } as Where<T>);
    const stored = db.statement(`SELECT ${all} FROM ${table} ${condition.sql}`).get(...condition.values) as
      | Stored
      | undefined;
    if (!stored) return false;
    return guarded(() => updateNow({ ...rowOf(stored), ...fields, id }, stored.version));
  }

  const insertNow = (row: T): void => {
    guarded(() => db.statement(INSERT).run(row.id, docOf(row), ...textsOf(row)));
  };

  return {
    insertNow,
    putNow(row, ifVersion) {
      if (ifVersion > 0) return updateNow(row, ifVersion);
      return db.statement(INSERT_NEW).run(row.id, docOf(row), ...textsOf(row)).changes === 1;
    },
    async get(id) {
      const stored = getStored(id);
      return stored && rowOf(stored);
    },
    async getVersioned(id): Promise<Versioned<T> | undefined> {
      const stored = getStored(id);
      return stored && { row: rowOf(stored), version: stored.version };
    },
    async find(where) {
      const [stored] = select({ where, order: 'asc', limit: 1 });
      return stored && rowOf(stored);
    },
    async list(options = {}) {
      return select(options).map(rowOf);
    },
    async count(where, atMost) {
      const condition = compileWhere(definition, where);
      const sql =
        atMost === undefined
          ? `SELECT count(*) AS n FROM ${table} ${condition.sql}`
          : `SELECT count(*) AS n FROM (SELECT 1 FROM ${table} ${condition.sql} LIMIT ${Math.trunc(atMost)})`;
      return (db.statement(sql).get(...condition.values) as { n: number }).n;
    },
    insert: (row) => db.writeOne(() => insertNow(row)),
    insertMany: (rows) =>
      db.write(() => {
        const inserted: string[] = [];
        for (const row of rows) {
          const { changes } = db.statement(INSERT_NEW).run(row.id, docOf(row), ...textsOf(row));
          if (changes === 1) inserted.push(row.id);
        }
        return inserted;
      }),
    replace: (row, ifVersion) => db.writeOne(() => guarded(() => updateNow(row, ifVersion))),
    patch: (id, fields, where) => db.writeOne(() => patchNow(id, fields, where)),
    increment: (id, by, initial) =>
      db.write(() => {
        const stored = getStored(id);
        const row = { ...(stored ? rowOf(stored) : initial) } as Record<string, unknown>;
        for (const [field, amount] of Object.entries(by))
          row[field] = Number(row[field] ?? 0) + Number(amount);
        if (stored) updateNow(row as unknown as T, stored.version);
        else insertNow(row as unknown as T);
      }),
    remove: (id) =>
      db.writeOne(() => db.statement(`DELETE FROM ${table} WHERE id = ?`).run(id).changes === 1),
    removeWhere: (where, limit) => {
      const condition = compileWhere(definition, where);
      const chosen = limit === undefined ? '' : ` LIMIT ${Math.trunc(limit)}`;
      const sql = `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} ${condition.sql}${chosen})`;
      return db.writeOne(() => Number(db.statement(sql).run(...condition.values).changes));
    },
    claim: (options, fields) =>
      db.write(() =>
        select(options).map((stored) => {
          const row = { ...rowOf(stored), ...fields };
          updateNow(row, stored.version);
          return row;
        }),
      ),
  };
}
