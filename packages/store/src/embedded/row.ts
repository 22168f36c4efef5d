import type { SQLInputValue } from '@wellspring/sqlite/database';
import type { CollectionDefinition, Row } from '../port.ts';

/** A row as stored in SQLite: the document without its texts, a column per text, and a copy of each indexed field. */
export interface StoredRow {
  rowid: number;
  id: string;
  version: number;
  doc: string;
  [textColumn: string]: string | number | Uint8Array;
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

export function createCodec<T extends Row>({ texts = [] }: Pick<CollectionDefinition<T>, 'texts'>) {
  const isText = new Set<string>(texts);
  // JSON omits undefined.
  const noTexts = Object.fromEntries(texts.map((field) => [field, undefined]));
  const text = (row: T, field: keyof T) => encodeText((row[field] as string | undefined) ?? '');
  return {
    /** The document without its texts, as JSON. */
    doc(row: T): string {
      if (isText.size === 0) return JSON.stringify(row);
      return JSON.stringify({ ...row, ...noTexts });
    },
    /** In the order of the definition. */
    texts: (row: T): SQLInputValue[] => texts.map((field) => text(row, field)),
    text,
    isText: (field: string): boolean => isText.has(field),
    row(stored: StoredRow): T {
      const row = JSON.parse(stored.doc) as Record<string, unknown>;
      for (const field of texts) row[field] = decodeText(stored[`t_${field}`]);
      return row as unknown as T;
    },
  };
}
