import type { CollectionDefinition } from '../collection-definition.ts';
import type { Store } from '../port.ts';

/** Counts the writes to collections that others cache; see CollectionDefinition. */
export interface RevisionRow {
  /** `listeners`: subscriptions, and what decides whether they reach their ends. */
  id: string;
  n: number;
}
export const revisions: CollectionDefinition<RevisionRow> = { name: 'revisions', indexes: [] };

/** A cache made under this number contains every write that had resolved before the call. */
export const currentRevision = async (store: Store, id: string): Promise<number> =>
  (await store.collection(revisions).get(id))?.n ?? 0;
