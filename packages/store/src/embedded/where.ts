import type { SQLInputValue } from '@wellspring/sqlite/database';
import { checkIndexed } from '../check-indexed.ts';
import type { CollectionDefinition, Row, Where } from '../port.ts';
import { columnValue, placeholderOf } from './row.ts';
import { columnOf, keyOf } from './schema.ts';

export interface Condition {
  /** Starts with WHERE, or is empty. */
  sql: string;
  values: SQLInputValue[];
}

const OPERATORS = { gt: '>', gte: '>=', lt: '<', lte: '<=' } as const;

function operand(value: unknown, values: SQLInputValue[]): string {
  const compared = columnValue(value);
  if (compared === null) throw new TypeError('Not comparable: null');
  return placeholderOf(compared, values);
}

/** @throws Error for a field without an index and for a comparison with undefined */
export function compileWhere<T extends Row>(
  definition: CollectionDefinition<T>,
  where: Where<T> = {},
): Condition {
  const parts: string[] = [];
  const values: SQLInputValue[] = [];
  const key = keyOf(definition);
  for (const [field, wanted] of Object.entries(where)) {
    checkIndexed(definition, field);
    // Ignoring it would match the rows of all tenants.
    if (wanted === undefined) throw new TypeError(`${definition.name}.${field} is compared with undefined`);
    if (field === key?.[0]) {
      if (typeof wanted !== 'string') throw new TypeError(`${definition.name}.${field} is not a text`);
      // A colon follows the digits.
      parts.push('id > ?', 'id < ?');
      values.push(`${wanted}/`, `${wanted}/:`);
      continue;
    }
    if (field === key?.[1]) {
      const first = firstOf(definition, where, field);
      const bounds =
        typeof wanted === 'object' ? (wanted as Record<string, unknown>) : { gte: wanted, lte: wanted };
      for (const [name, bound] of Object.entries(bounds)) {
        const operator = OPERATORS[name as keyof typeof OPERATORS];
        if (!operator || typeof bound !== 'string')
          throw new TypeError(`${definition.name}.${field} takes a range`);
        parts.push(`id ${operator} ?`);
        values.push(`${first}/${bound}`);
      }
      continue;
    }
    const column = columnOf(field);
    if (wanted === null) {
      parts.push(`${column} IS NULL`);
    } else if (typeof wanted !== 'object') {
      parts.push(`${column} = ${operand(wanted, values)}`);
    } else if ('in' in wanted) {
      // One parameter, so that lists of any length share a prepared statement.
      parts.push(`${column} IN (SELECT value FROM json_each(?))`);
      values.push(JSON.stringify(wanted.in));
    } else {
      const bounds = Object.entries(wanted).filter(([, bound]) => bound !== undefined);
      if (bounds.length === 0) throw new TypeError(`Range without bounds for ${definition.name}.${field}`);
      for (const [name, bound] of bounds) {
        const operator = OPERATORS[name as keyof typeof OPERATORS];
        if (!operator) throw new TypeError(`Unknown operator ${name} for ${definition.name}.${field}`);
        parts.push(`${column} ${operator} ${operand(bound, values)}`);
      }
    }
  }
  return { sql: parts.length === 0 ? '' : `WHERE ${parts.join(' AND ')}`, values };
}

/** The value of the first field of the id. */
function firstOf<T extends Row>(definition: CollectionDefinition<T>, where: Where<T>, field: string): string {
  const first: unknown = where[keyOf(definition)![0]];
  if (typeof first !== 'string')
    throw new Error(`${definition.name}.${field} needs ${keyOf(definition)![0]}`);
  return first;
}

/** The column that sorts as a field does, among the rows that match. */
export function orderColumn<T extends Row>(
  definition: CollectionDefinition<T>,
  field: string,
  where: Where<T> = {},
): string {
  checkIndexed(definition, field);
  if (!keyOf(definition)?.includes(field as never)) return columnOf(field);
  firstOf(definition, where, field);
  return 'id';
}
