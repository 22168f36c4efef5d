import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { Binary, type Document } from '@wellspring/mongodb/client';
import type { CollectionDefinition, Row } from '../port.ts';

/**
 * A row as stored in MongoDB: the id as `_id`, each field under its name. Objects and arrays are JSON text, since user
 * data may have any keys (`$set`, `a.b`, NUL). Names that start with `_` are reserved for the adapter.
 */
export interface StoredRow extends Document {
  _id: string;
  /** The version. */
  _v: number;
}

/** Longer texts are compressed: a document is limited to 16 MB. */
const MIN_COMPRESSED_LENGTH = 1_000_000;

/** Escapes code units that BSON cannot represent, followed by four hex digits. */
const MARK = '\ufffe';

/** Escapes lone surrogates. */
export function encodeString(text: string): string {
  if (text.isWellFormed() && !text.includes(MARK)) return text;
  return text.replace(
    /[\ufffe\ud800-\udfff]/gu,
    (unit) => MARK + unit.charCodeAt(0).toString(16).padStart(4, '0'),
  );
}

export function decodeString(text: string): string {
  if (!text.includes(MARK)) return text;
  return text.replace(/\ufffe([0-9a-f]{4})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}

const encodeText = (text: string) =>
  text.length < MIN_COMPRESSED_LENGTH
    ? encodeString(text)
    : new Binary(zstdCompressSync(Buffer.from(encodeString(text))));

function decodeText(stored: unknown): string {
  if (stored instanceof Binary) return decodeString(zstdDecompressSync(stored.value()).toString());
  return decodeString((stored as string | undefined) ?? '');
}

/** Follows JSON semantics; undefined omits the field. */
function encodeValue(value: unknown): unknown {
  if (typeof value === 'string') return encodeString(value);
  if (typeof value === 'number') return Number.isFinite(value) ? value : null;
  if (value === null || typeof value === 'boolean') return value;
  const json = JSON.stringify(value);
  return json === undefined ? undefined : { json };
}

function decodeValue(stored: unknown): unknown {
  if (typeof stored === 'string') return decodeString(stored);
  return stored !== null && typeof stored === 'object'
    ? JSON.parse((stored as { json: string }).json)
    : stored;
}

export interface Codec<T extends Row> {
  /** The stored value of a field; undefined omits it. */
  field(name: string, value: unknown): unknown;
  /** Includes the hidden fields of the unique indexes. */
  document(row: T, version: number): StoredRow;
  row(stored: StoredRow): T;
  /** The hidden fields of the unique indexes on these fields; undefined if an index also needs other fields. */
  uniques(id: string, fields: Partial<T>): Record<string, string> | undefined;
}

/** Name of the hidden field of a unique index. */
export const uniqueField = (fields: readonly string[]) => `_u_${fields.join('_')}`;

/** The values as one text; the id if one of them is absent, so that the row conflicts with no other. */
function uniqueValue(id: string, values: readonly unknown[]): string {
  const absent = values.some((value) => value === null || value === undefined);
  return absent ? `#${encodeString(id)}` : JSON.stringify(values);
}

export function createCodec<T extends Row>({ indexes, texts = [] }: CollectionDefinition<T>): Codec<T> {
  const isText = new Set<string>(texts);
  const uniqueIndexes = indexes.filter(({ unique }) => unique).map(({ fields }) => fields);
  const field = (name: string, value: unknown) =>
    isText.has(name) && typeof value === 'string' ? encodeText(value) : encodeValue(value);

  function uniques(id: string, fields: Partial<T>): Record<string, string> | undefined {
    const hidden: Record<string, string> = {};
    for (const names of uniqueIndexes) {
      const given = names.filter((name) => Object.hasOwn(fields, name));
      if (given.length === 0) continue;
      if (given.length < names.length) return undefined;
      hidden[uniqueField(names)] = uniqueValue(
        id,
        names.map((name) => fields[name]),
      );
    }
    return hidden;
  }

  return {
    field,
    uniques,
    document(row, version) {
      const stored: StoredRow = { _id: encodeString(row.id), _v: version };
      for (const [name, value] of Object.entries(row)) {
        const encoded = name === 'id' ? undefined : field(name, value);
        if (encoded !== undefined) stored[name] = encoded;
      }
      for (const names of uniqueIndexes) {
        stored[uniqueField(names)] = uniqueValue(
          row.id,
          names.map((name) => row[name]),
        );
      }
      return stored;
    },
    row(stored) {
      const row: Record<string, unknown> = { id: decodeString(stored._id) };
      for (const [name, value] of Object.entries(stored)) {
        if (!name.startsWith('_')) row[name] = isText.has(name) ? decodeText(value) : decodeValue(value);
      }
      for (const name of texts) row[name] ??= '';
      return row as unknown as T;
    },
  };
}
