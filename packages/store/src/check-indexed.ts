import type { CollectionDefinition, Row } from './collection-definition.ts';

/** @throws Error for a field that `where` and an order may not name */
export function checkIndexed<T extends Row>(definition: CollectionDefinition<T>, field: string): void {
  const isIndexed = definition.indexes.some(({ fields }) => (fields as readonly string[]).includes(field));
  if (field !== 'id' && !isIndexed) throw new Error(`${definition.name}.${field} has no index`);
}
