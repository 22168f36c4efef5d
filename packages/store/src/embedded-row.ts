import type { SQLInputValue } from '@wellspring/sqlite/database';
import type { CollectionDefinition, Row } from './port.ts';

/** A row as SQLite keeps it: the document without its texts, and each text in a column of its own. */
export interface StoredRow {
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

export function createCodec<T extends Row>({ texts = [] }: Pick<CollectionDefinition<T>, 'texts'>) {
  const isText = new Set<string>(texts);
  return {
    /** All but the texts, as JSON. */
    doc(row: T): string {
      if (isText.size === 0) return JSON.stringify(row);
      const rest: Record<string, unknown> = {};
      for (const field in row) if (!isText.has(field)) rest[field] = row[field];
      return JSON.stringify(rest);
    },
    /** In the order of the definition. */
    texts: (row: T): SQLInputValue[] =>
      texts.map((field) => encodeText((row[field] as string | undefined) ?? '')),
    hasText: (fields: Partial<T>): boolean => texts.some((field) => field in fields),
    row(stored: StoredRow): T {
      const row = JSON.parse(stored.doc) as Record<string, unknown>;
      for (const field of texts) row[field] = decodeText(stored[`t_${field}`]);
      return row as unknown as T;
    },
  };
}
