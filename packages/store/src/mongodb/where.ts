import type { Document } from '@wellspring/mongodb/client';
import { checkIndexed } from '../check-indexed.ts';
import type { CollectionDefinition, Row, Where } from '../port.ts';
import { encodeString } from './row.ts';

const OPERATORS: Record<string, string> = { gt: '$gt', gte: '$gte', lt: '$lt', lte: '$lte' };

function operand(value: unknown): string | number | boolean {
  if (typeof value === 'string') return encodeString(value);
  if (typeof value === 'number' || typeof value === 'boolean') return value;
  throw new TypeError(`Not comparable: ${value === null ? 'null' : typeof value}`);
}

/** @throws Error for a field without an index and for a comparison with undefined */
export function filterOf<T extends Row>(definition: CollectionDefinition<T>, where: Where<T> = {}): Document {
  const filter: Document = {};
  for (const [field, wanted] of Object.entries(where)) {
    checkIndexed(definition, field);
    // Ignoring it would match the rows of all tenants.
    if (wanted === undefined) throw new TypeError(`${definition.name}.${field} is compared with undefined`);
    filter[storedName(field)] = condition(`${definition.name}.${field}`, wanted);
  }
  return filter;
}

function condition(field: string, wanted: unknown): Document {
  if (wanted === null) return { $eq: null };
  if (typeof wanted !== 'object') return { $eq: operand(wanted) };
  // Only `null` matches absent values.
  if ('in' in wanted) return { $in: (wanted.in as unknown[]).filter((one) => one !== null).map(operand) };
  const bounds = Object.entries(wanted).filter(([, bound]) => bound !== undefined);
  if (bounds.length === 0) throw new TypeError(`Range without bounds for ${field}`);
  return Object.fromEntries(
    bounds.map(([name, bound]) => {
      if (!Object.hasOwn(OPERATORS, name)) throw new TypeError(`Unknown operator ${name} for ${field}`);
      return [OPERATORS[name], operand(bound)];
    }),
  );
}

/** Name of a field in the document. */
export const storedName = (field: string) => (field === 'id' ? '_id' : field);
