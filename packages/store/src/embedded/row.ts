import type { SQLInputValue } from '@wellspring/sqlite/database';
import type { CollectionDefinition, Row } from '../port.ts';

/** A row as stored in SQLite; see createCodec. */
export interface StoredRow {
  rowid: number;
  id: string;
  version: number;
  doc: string;
  /** Of texts and indexed fields. */
  [column: string]: string | number | Uint8Array | null;
}

/** Text with lone surrogates is stored as UTF-16, since UTF-8 cannot represent it. */
const encodeText = (text: string): SQLInputValue =>
  text.isWellFormed() ? text : Buffer.from(text, 'utf16le');
const decodeText = (stored: unknown): string =>
  typeof stored === 'string' ? stored : Buffer.from(stored as Uint8Array).toString('utf16le');

/** The value of a field in a column and in comparisons: the result of json_extract. */
export function columnValue(value: unknown): string | number | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'string' || typeof value === 'number') return value;
  throw new TypeError(`Not a valid value of an indexed field: ${typeof value}`);
}

/**
 * Adds a parameter and returns its placeholder. Strings with lone surrogates are passed as JSON to get the bytes of
 * json_extract, which order by code points.
 */
export function placeholderOf(value: string | number | null, values: SQLInputValue[]): string {
  if (typeof value === 'string' && !value.isWellFormed()) {
    values.push(JSON.stringify([value]));
    return "json_extract(?, '$[0]')";
  }
  values.push(value);
  return '?';
}

/** The column alone restores the value. Booleans and texts with lone surrogates need the document. */
const isWhole = (value: unknown) =>
  typeof value === 'number' || (typeof value === 'string' && value.isWellFormed());

const isJoined = (id: string, first: string, second: string) =>
  id.length === first.length + 1 + second.length &&
  id.startsWith(first) &&
  id[first.length] === '/' &&
  id.endsWith(second);

export interface CodecOptions<T extends Row> extends Pick<CollectionDefinition<T>, 'texts'> {
  /** Fields that make up the id. */
  key?: readonly [keyof T & string, keyof T & string] | undefined;
  /** Indexed fields with a column; and those among them that this process writes. */
  stored: readonly (keyof T & string)[];
  written: readonly (keyof T & string)[];
}

/**
 * A row is stored once: a column for the id, each text and each indexed field, and a document with all else. A value of
 * the document comes before that of a column.
 */
export function createCodec<T extends Row>({ texts = [], key, stored: columns, written }: CodecOptions<T>) {
  const isText = new Set<string>(texts);
  const isColumn = new Set<string>(written);
  const text = (row: T, field: keyof T) => encodeText((row[field] as string | undefined) ?? '');
  return {
    /** JSON of what has no column. */
    doc(row: T): string {
      const rest: Record<string, unknown> = {};
      const isKeyed = key && isJoined(row.id, String(row[key[0]]), String(row[key[1]]));
      // Without arrays of entries: a run may have ten thousand rows.
      for (const field in row) {
        if (isText.has(field) || (isKeyed && (field === key[0] || field === key[1]))) continue;
        const value = row[field];
        if ((field === 'id' || isColumn.has(field)) && isWhole(value)) continue;
        rest[field] = value;
      }
      return JSON.stringify(rest);
    },
    /** In the order of the definition. */
    texts: (row: T): SQLInputValue[] => texts.map((field) => text(row, field)),
    text,
    isText: (field: string): boolean => isText.has(field),
    row(stored: StoredRow): T {
      const row = { id: stored.id, ...JSON.parse(stored.doc) } as Record<string, unknown>;
      if (key && row[key[1]] === undefined) {
        const slash = stored.id.lastIndexOf('/');
        row[key[0]] = stored.id.slice(0, slash);
        row[key[1]] = stored.id.slice(slash + 1);
      }
      for (const field of columns) {
        const value = stored[`f_${field}`];
        if (row[field] === undefined && value !== null) row[field] = value;
      }
      for (const field of texts) row[field] = decodeText(stored[`t_${field}`]);
      return row as unknown as T;
    },
  };
}
