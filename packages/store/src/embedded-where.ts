import type { SQLInputValue } from '@wellspring/sqlite/database';
import { columnOf } from './embedded-schema.ts';
import type { CollectionDefinition, Row, Where } from './port.ts';

export interface Condition {
  /** Begins with WHERE, or is empty. */
  sql: string;
  values: SQLInputValue[];
}

const OPERATORS = { gt: '>', gte: '>=', lt: '<', lte: '<=' } as const;

/** A value as json_extract gives it: booleans are 1 and 0. */
export function sqlValue(value: unknown): SQLInputValue {
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'string' || typeof value === 'number') return value;
  throw new TypeError(`not a value to compare with: ${typeof value}`);
}

/** @throws Error for a field without an index: a programming error */
export function compileWhere<T extends Row>(
  definition: CollectionDefinition<T>,
  where: Where<T> = {},
): Condition {
  const parts: string[] = [];
  const values: SQLInputValue[] = [];
  for (const [field, wanted] of Object.entries(where)) {
    if (wanted === undefined) continue;
    checkIndexed(definition, field);
    const column = columnOf(field);
    if (wanted === null) {
      parts.push(`${column} IS NULL`);
    } else if (typeof wanted !== 'object') {
      parts.push(`${column} = ?`);
      values.push(sqlValue(wanted));
    } else if ('in' in wanted) {
      const list = wanted.in as unknown[];
      parts.push(list.length === 0 ? '0' : `${column} IN (${list.map(() => '?').join(', ')})`);
      values.push(...list.map(sqlValue));
    } else {
      for (const [name, operator] of Object.entries(OPERATORS)) {
        const bound = (wanted as Record<string, unknown>)[name];
        if (bound === undefined) continue;
        parts.push(`${column} ${operator} ?`);
        values.push(sqlValue(bound));
      }
    }
  }
  return { sql: parts.length === 0 ? '' : `WHERE ${parts.join(' AND ')}`, values };
}

export function checkIndexed<T extends Row>(definition: CollectionDefinition<T>, field: string): void {
  if (
    field === 'id' ||
    definition.indexes.some(({ fields }) => (fields as readonly string[]).includes(field))
  )
    return;
  throw new Error(`${definition.name}.${field} has no index`);
}
