import type { Database } from '@wellspring/sqlite/database';
import type { CollectionDefinition, Row } from './port.ts';

/** Raised when the layout below changes; a database of a later layout is refused. */
const LAYOUT = 1;

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;
export const tableOf = ({ name }: { name: string }) => quoted(`c_${name}`);
/** The generated column of an indexed field. */
export const columnOf = (field: string) => quoted(field === 'id' ? 'id' : `f_${field}`);
/** The column of a text kept out of the document. */
export const textColumnOf = (field: string) => quoted(`t_${field}`);
const indexName = (definition: CollectionDefinition<never>, fields: readonly string[]) =>
  `i_${definition.name}_${fields.join('_')}`;

/** Makes the table of the collections' layouts. @throws Error for a database that a later version wrote */
export function prepareDatabase(db: Database): void {
  db.exec('CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID');
  const found = db.statement("SELECT value FROM meta WHERE name = 'layout'").get() as
    | { value: string }
    | undefined;
  if (found && Number(found.value) > LAYOUT) {
    throw new Error(
      `The database has layout ${found.value}; this version knows ${LAYOUT}. Use a newer version.`,
    );
  }
  db.statement("INSERT OR REPLACE INTO meta VALUES ('layout', ?)").run(String(LAYOUT));
}

/**
 * Brings the table of a collection to its definition: missing columns and indexes are added, indexes that are not
 * declared any more are dropped. Documents stay as they are.
 */
export function migrateCollection<T extends Row>(db: Database, definition: CollectionDefinition<T>): void {
  const table = tableOf(definition);
  const wanted = JSON.stringify({ indexes: definition.indexes, texts: definition.texts ?? [] });
  const key = `collection:${definition.name}`;
  const known = db.statement('SELECT value FROM meta WHERE name = ?').get(key) as
    | { value: string }
    | undefined;
  if (known?.value === wanted) return;

  db.exec(
    `CREATE TABLE IF NOT EXISTS ${table} (id TEXT PRIMARY KEY NOT NULL, version INTEGER NOT NULL, doc TEXT NOT NULL) WITHOUT ROWID`,
  );
  const columns = new Set(
    (
      db.statement(`SELECT name FROM pragma_table_xinfo(?)`).all(`c_${definition.name}`) as { name: string }[]
    ).map(({ name }) => name),
  );
  for (const field of definition.texts ?? []) {
    if (!columns.has(`t_${field}`))
      db.exec(`ALTER TABLE ${table} ADD COLUMN ${textColumnOf(field)} TEXT NOT NULL DEFAULT ''`);
  }
  for (const field of new Set(definition.indexes.flatMap(({ fields }) => fields))) {
    if (field === 'id' || columns.has(`f_${field}`)) continue;
    const path = `$."${field}"`.replaceAll("'", "''");
    db.exec(`ALTER TABLE ${table} ADD COLUMN ${columnOf(field)} AS (json_extract(doc, '${path}')) VIRTUAL`);
  }
  const declared = new Set<string>();
  for (const { fields, unique } of definition.indexes) {
    const name = indexName(definition as never, fields) + (unique ? '_u' : '');
    declared.add(name);
    const list = fields.map(columnOf).join(', ');
    db.exec(`CREATE ${unique ? 'UNIQUE ' : ''}INDEX IF NOT EXISTS ${quoted(name)} ON ${table} (${list})`);
  }
  const present = db
    .statement(
      "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND name LIKE 'i!_%' ESCAPE '!'",
    )
    .all(`c_${definition.name}`) as { name: string }[];
  for (const { name } of present) if (!declared.has(name)) db.exec(`DROP INDEX ${quoted(name)}`);
  db.statement('INSERT OR REPLACE INTO meta VALUES (?, ?)').run(key, wanted);
}
