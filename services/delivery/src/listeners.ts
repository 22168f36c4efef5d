import type { Clock } from '@wellspring/core/clock';
import { createLru } from '@wellspring/core/lru';
import { currentRevision } from '@wellspring/store/collections/revisions';
import type { Store } from '@wellspring/store/port';
import { type Listeners, listenersOf } from './match.ts';

/** The active listeners by channel. */
export type FindListeners = (
  emitter: { id: string; owner_id: string },
  names: readonly string[],
) => Promise<Map<string, Listeners>>;

/** Listeners that are cached in all. */
const CACHE_SIZE = 50_000;
/** Bounds the age of entries whose revision was lost by a crash between a write and the count of it. */
const MAX_AGE_MS = 10_000;

/**
 * Caches listeners by the revision of the collections that decide about them. It is read for every batch, so that a
 * subscription, webhook or source created before an event was accepted receives it.
 */
export function createListeners({ store, clock }: { store: Store; clock: Clock }): FindListeners {
  const cache = createLru<{ listeners: Listeners; revision: number; at: number }>(
    CACHE_SIZE,
    ({ listeners }) => 1 + listeners.webhooks.length + listeners.runs.length,
  );
  return async (emitter, names) => {
    const revision = await currentRevision(store, 'listeners');
    const now = clock.now();
    const keyOf = (name: string) => `${emitter.id} ${emitter.owner_id} ${name}`;
    const found = new Map<string, Listeners>();
    for (const name of names) {
      const entry = cache.get(keyOf(name));
      const isFresh = entry?.revision === revision && Math.abs(now - entry.at) < MAX_AGE_MS;
      if (isFresh) found.set(name, entry.listeners);
    }
    const missing = names.filter((name) => !found.has(name));
    if (missing.length === 0) return found;
    for (const [name, listeners] of await listenersOf(store, emitter, missing)) {
      cache.set(keyOf(name), { listeners, revision, at: now });
      found.set(name, listeners);
    }
    return found;
  };
}
