import type { Clock } from '@wellspring/core/clock';
import { createLru } from '@wellspring/core/lru';
import type { CollectionDefinition } from '../collection-definition.ts';
import type { Store } from '../port.ts';

/** Counts the writes to collections that others cache; see CollectionDefinition. */
export interface RevisionRow {
  /** `listeners`: raised by each write to sources, endpoints, workflows, webhooks, subscriptions and members. */
  id: string;
  n: number;
}
export const revisions: CollectionDefinition<RevisionRow> = { name: 'revisions', indexes: [] };

/** A value read after this call contains every write that had resolved before it. */
export const currentRevision = async (store: Store, id: string): Promise<number> =>
  (await store.collection(revisions).get(id))?.n ?? 0;

/** The newest revision; undefined if one of them has none. */
export function newestRevision(all: readonly { revision?: number | undefined }[]): number | undefined {
  const newest = Math.max(...all.map(({ revision = Number.NaN }) => revision));
  return Number.isNaN(newest) ? undefined : newest;
}

/** Values read under a revision. */
export interface RevisionCache<V> {
  /** The value, if it was read under this revision or a later one. */
  get(key: string, revision: number): V | undefined;
  /** @param revision read before the value */
  set(key: string, value: V, revision: number): void;
}

/** Maximum age of an entry: a crash between a write and its count leaves the revision unchanged. */
const MAX_AGE_MS = 10_000;

/** @param sizeOf counted against `max`; default: 1 for each value */
export function createRevisionCache<V>(
  clock: Clock,
  max: number,
  sizeOf: (value: V) => number = () => 1,
): RevisionCache<V> {
  const cache = createLru<{ value: V; revision: number; at: number }>(max, ({ value }) => sizeOf(value));
  return {
    get(key, revision) {
      const entry = cache.get(key);
      const isFresh = entry && entry.revision >= revision && Math.abs(clock.now() - entry.at) < MAX_AGE_MS;
      return isFresh ? entry.value : undefined;
    },
    set: (key, value, revision) => void cache.set(key, { value, revision, at: clock.now() }),
  };
}
