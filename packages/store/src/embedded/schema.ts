import { StartRefused } from '@wellspring/core/start-refused';
import type { Database } from '@wellspring/sqlite/database';
import type { CollectionDefinition, Index, Row } from '../port.ts';
import { createCodec, type StoredRow } from './row.ts';

/** Version of the layout; a database with a later one is refused. */
const LAYOUT = 3;
/** Rows of earlier layouts have other fields, which nothing converts. */
const OLDEST_LAYOUT = 3;
/** Rows per step when the texts of a collection change. */
const BATCH_SIZE = 200;

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
export const tableOf = ({ name }: { name: string }) => quoted(`c_${name}`);
/** The column of an indexed field: its value, which the document then omits, null if absent; see createCodec. */
export const columnOf = (field: string) => quoted(field === 'id' ? 'id' : `f_${field}`);
type Indexes<T extends Row> = Pick<CollectionDefinition<T>, 'indexes'>;

/** The fields that make up the id. */
export const keyOf = <T extends Row>({ indexes }: Indexes<T>) =>
  indexes.find(({ primary }) => primary)?.fields as [keyof T & string, keyof T & string] | undefined;
/** The indexed fields that have a column. */
export const indexedFields = <T extends Row>(definition: Indexes<T>) =>
  [...new Set<keyof T & string>(definition.indexes.flatMap(({ fields }) => fields))].filter(
    (field) => field !== 'id' && !keyOf(definition)?.includes(field),
  );
/** The column of a text. */
export const textColumnOf = (field: string) => quoted(`t_${field}`);

/** Creates the table `meta`. @throws StartRefused for a database of a later version, or of one too old */
export function prepareDatabase(db: Database): void {
  db.exec('CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID');
  const found = db.statement("SELECT value FROM meta WHERE name = 'layout'").get() as
    | { value: string }
    | undefined;
  if (found && Number(found.value) > LAYOUT) {
    throw new StartRefused(
      `The database has layout ${found.value}; this version knows ${LAYOUT}. Use a newer version.`,
    );
  }
  if (found && Number(found.value) < OLDEST_LAYOUT) {
    throw new StartRefused(
      `The database has layout ${found.value}; this version reads layout ${OLDEST_LAYOUT} and later. Use the version that wrote it.`,
    );
  }
  db.statement("INSERT OR REPLACE INTO meta VALUES ('layout', ?)").run(String(LAYOUT));
}

/**
 * Migrates the table of a collection to its definition in one transaction: columns, indexes and texts. Other columns and
 * indexes stay, since they may be those of a newer version.
 */
export function migrateCollection<T extends Row>(db: Database, definition: CollectionDefinition<T>): void {
  const wanted = JSON.stringify({
    layout: LAYOUT,
    indexes: definition.indexes,
    texts: definition.texts ?? [],
  });
  const key = `collection:${definition.name}`;
  const known = db.statement('SELECT value FROM meta WHERE name = ?').get(key) as
    | { value: string }
    | undefined;
  if (known?.value === wanted) return;
  // Before the texts: reading a column behind a large text reads through the text.
  const columns = indexedFields(definition)
    .map((field) => `, ${columnOf(field)}`)
    .join('');
  db.transaction(() => {
    // Not WITHOUT ROWID: large documents in the primary key's tree slow down every lookup.
    db.exec(
      `CREATE TABLE IF NOT EXISTS ${tableOf(definition)}
       (id TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL, doc TEXT NOT NULL${columns})`,
    );
    moveTexts(db, definition);
    makeColumns(db, definition);
    makeIndexes(db, definition);
    db.statement('INSERT OR REPLACE INTO meta VALUES (?, ?)').run(key, wanted);
  });
}

/** The indexed fields with a column, also those of a newer version. */
export const storedFields = <T extends Row>(db: Database, definition: CollectionDefinition<T>) =>
  columnsOf(db, definition).flatMap((name) =>
    name.startsWith('f_') ? [name.slice(2) as keyof T & string] : [],
  );

const columnsOf = (db: Database, { name }: { name: string }): string[] =>
  (db.statement('SELECT name FROM pragma_table_info(?)').all(`c_${name}`) as { name: string }[]).map(
    (column) => column.name,
  );

/** The name describes the whole index, so a changed index has another name. */
const indexName = <T extends Row>(collection: string, { fields, unique, sparse }: Index<T>) =>
  `i_${collection}_${fields.join('_')}${unique ? '_u' : ''}${sparse ? '_s' : ''}`;

const indexesOf = (db: Database, { name }: { name: string }): string[] =>
  (
    db
      .statement(
        "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND name LIKE 'i!_%' ESCAPE '!'",
      )
      .all(`c_${name}`) as { name: string }[]
  ).map(({ name: index }) => index);

/** Drops indexes and columns that the definition does not declare; returns the names of the indexes. */
export function dropStaleIndexes<T extends Row>(db: Database, definition: CollectionDefinition<T>): string[] {
  const declared = new Set(
    definition.indexes.filter(({ primary }) => !primary).map((index) => indexName(definition.name, index)),
  );
  const wanted = new Set<string>(indexedFields(definition).map((field) => `f_${field}`));
  return db.transaction(() => {
    const stale = indexesOf(db, definition).filter((name) => !declared.has(name));
    for (const name of stale) db.exec(`DROP INDEX ${quoted(name)}`);
    for (const name of columnsOf(db, definition)) {
      if (name.startsWith('f_') && !wanted.has(name)) dropColumn(db, definition, name);
    }
    return stale;
  });
}

/** Its values go back to the document. */
function dropColumn(db: Database, definition: { name: string }, name: string): void {
  const [table, column, path] = [tableOf(definition), quoted(name), pathOf(name)];
  db.exec(
    `UPDATE ${table} SET doc = json_set(doc, ${path}, ${column})
     WHERE ${column} IS NOT NULL AND json_type(doc, ${path}) IS NULL`,
  );
  db.exec(`ALTER TABLE ${table} DROP COLUMN ${column}`);
}

/** Adds columns for newly indexed fields; rows written by another version may lack the values of present ones. */
function makeColumns<T extends Row>(db: Database, definition: CollectionDefinition<T>): void {
  const table = tableOf(definition);
  const present = new Set(columnsOf(db, definition));
  const names = indexedFields(definition).map((field) => `f_${field}`);
  // Without a type, so that SQLite converts no value.
  for (const name of names) {
    if (!present.has(name)) db.exec(`ALTER TABLE ${table} ADD COLUMN ${quoted(name)}`);
    const [column, path] = [quoted(name), pathOf(name)];
    db.exec(
      `UPDATE ${table} SET ${column} = json_extract(doc, ${path})
       WHERE json_type(doc, ${path}) IS NOT NULL AND ${column} IS NOT json_extract(doc, ${path})`,
    );
  }
}

/** Of the field of a column within the document: an SQL string. */
const pathOf = (column: string) => `'$."${column.slice(2).replaceAll("'", "''")}"'`;

function makeIndexes<T extends Row>(db: Database, definition: CollectionDefinition<T>): void {
  const table = tableOf(definition);
  const key = keyOf(definition);
  for (const index of definition.indexes) {
    const { fields, unique, sparse, primary } = index;
    if (primary) continue;
    const name = quoted(indexName(definition.name, index));
    const columns = fields.filter((field) => !key?.includes(field));
    // Ties are broken by id.
    const list = unique || columns.includes('id' as never) ? columns : [...columns, 'id'];
    const part = sparse
      ? `WHERE ${columns.map((field) => `${columnOf(field)} IS NOT NULL`).join(' AND ')}`
      : '';
    db.exec(
      `CREATE ${unique ? 'UNIQUE ' : ''}INDEX IF NOT EXISTS ${name} ON ${table} (${list.map(columnOf).join(', ')}) ${part}`,
    );
  }
}

function moveTexts<T extends Row>(db: Database, definition: CollectionDefinition<T>): void {
  const table = tableOf(definition);
  const texts = definition.texts ?? [];
  const before = columnsOf(db, definition)
    .filter((name) => name.startsWith('t_'))
    .map((name) => name.slice(2));
  const added = texts.filter((field) => !before.includes(field));
  const removed = before.filter((field) => !(texts as readonly string[]).includes(field));
  if (added.length === 0 && removed.length === 0) return;

  for (const field of added) {
    db.exec(`ALTER TABLE ${table} ADD COLUMN ${textColumnOf(field)} TEXT NOT NULL DEFAULT ''`);
  }
  const fields = storedFields(db, definition);
  const known = { key: keyOf(definition), stored: fields, written: [] };
  const from = createCodec<T>({ ...known, texts: before as (keyof T & string)[] });
  const to = createCodec<T>({ ...known, texts });
  const columns = ['id', 'version', 'doc', ...before.map(textColumnOf), ...fields.map(columnOf)].join(', ');
  const sets = ['doc = ?', ...texts.map((field) => `${textColumnOf(field)} = ?`)].join(', ');
  const select = db.statement(`SELECT ${columns} FROM ${table} WHERE id > ? ORDER BY id LIMIT ${BATCH_SIZE}`);
  const update = db.statement(`UPDATE ${table} SET ${sets} WHERE id = ?`);
  let after = '';
  for (;;) {
    const batch = select.all(after) as unknown as StoredRow[];
    for (const stored of batch) {
      const row = from.row(stored);
      update.run(to.doc(row), ...to.texts(row), stored.id);
      after = stored.id;
    }
    if (batch.length < BATCH_SIZE) break;
  }
  for (const field of removed) db.exec(`ALTER TABLE ${table} DROP COLUMN ${textColumnOf(field)}`);
}
