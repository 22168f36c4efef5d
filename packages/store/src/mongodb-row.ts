import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { Binary, type Document } from '@wellspring/mongodb/client';
import type { CollectionDefinition, Row } from './port.ts';

/**
 * A row as MongoDB keeps it: the id as `_id`, each field under its name. Only what can be indexed stands there as it
 * is; objects and arrays are JSON text, since their keys are the users' and may be anything (`$set`, `a.b`, NUL).
 * Names that begin with `_` are the adapter's own: no row has such a field.
 */
export interface StoredRow extends Document {
  _id: string;
  /** The version. */
  _v: number;
}

/** Longer texts are compressed: a document holds 16 MB, and a run may leave that much. */
const COMPRESSED_FROM = 1_000_000;

/** What BSON cannot carry is written as this non-character and four hex digits. */
const MARK = '\ufffe';

/** A string without lone surrogates, which stand for themselves everywhere else in the platform. */
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
  text.length < COMPRESSED_FROM
    ? encodeString(text)
    : new Binary(zstdCompressSync(Buffer.from(encodeString(text))));

function decodeText(stored: unknown): string {
  if (stored instanceof Binary) return decodeString(zstdDecompressSync(stored.value()).toString());
  return decodeString((stored as string | undefined) ?? '');
}

/** As JSON would have it; undefined: the field is left out. */
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
  /** A field's value; undefined: it is left out. */
  field(name: string, value: unknown): unknown;
  /** With the hidden fields of the unique indexes. */
  document(row: T, version: number): StoredRow;
  row(stored: StoredRow): T;
  /** The hidden fields of the unique indexes that these fields belong to; undefined when they tell only a part of one. */
  uniques(id: string, fields: Partial<T>): Record<string, string> | undefined;
}

/** The hidden field that a unique index is on. */
export const uniqueField = (fields: readonly string[]) => `_u_${fields.join('_')}`;

/** What is unique: the values, or the id in a row that has none, which so conflicts with no other. */
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
