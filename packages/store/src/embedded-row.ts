import type { SQLInputValue } from '@wellspring/sqlite/database';
import type { CollectionDefinition, Row } from './port.ts';

/**
 * A row as SQLite keeps it: the document without its texts, and each text in a column of its own. Indexed fields stand
 * in the document and, for the indexes, in columns of their own.
 */
export interface StoredRow {
  rowid: number;
  id: string;
  version: number;
  doc: string;
  [textColumn: string]: string | number | Uint8Array;
}

/** A lone surrogate has no UTF-8; such a text is kept as bytes of UTF-16. */
const encodeText = (text: string): SQLInputValue =>
  text.isWellFormed() ? text : Buffer.from(text, 'utf16le');
const decodeText = (stored: unknown): string =>
  typeof stored === 'string' ? stored : Buffer.from(stored as Uint8Array).toString('utf16le');

/** The value of a field as a column has it, and as it is compared: what json_extract gives. */
export function columnValue(value: unknown): string | number | null {
  if (value === undefined || value === null) return null;
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'string' || typeof value === 'number') return value;
  throw new TypeError(`not a value of an indexed field: ${typeof value}`);
}

/**
 * The place of a value in a statement. Strings that UTF-8 cannot carry go as JSON, so that they have the bytes which
 * json_extract gives them: those order by code points.
 */
export function placeOf(value: string | number | null, values: SQLInputValue[]): string {
  if (typeof value === 'string' && !value.isWellFormed()) {
    values.push(JSON.stringify([value]));
    return "json_extract(?, '$[0]')";
  }
  values.push(value);
  return '?';
}

export function createCodec<T extends Row>({ texts = [] }: Pick<CollectionDefinition<T>, 'texts'>) {
  const isText = new Set<string>(texts);
  // JSON has no undefined.
  const noTexts = Object.fromEntries(texts.map((field) => [field, undefined]));
  const text = (row: T, field: keyof T) => encodeText((row[field] as string | undefined) ?? '');
  return {
    /** All but the texts, as JSON. */
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
