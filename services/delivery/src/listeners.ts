import type { Clock } from '@wellspring/core/clock';
import { createRevisionCache, currentRevision } from '@wellspring/store/collections/revisions';
import type { Store } from '@wellspring/store/port';
import { type Listeners, listenersOf } from './match.ts';

/**
 * The active listeners by channel.
 * @param revision of listeners that has to be known at least; default: the current one
 */
export type FindListeners = (
  emitter: { id: string; owner_id: string },
  names: readonly string[],
  revision?: number,
) => Promise<Map<string, Listeners>>;

/** Listeners that are cached in all. */
const CACHE_SIZE = 50_000;

/**
 * Caches listeners by the revision of the collections that decide about them, so that a subscription, webhook or source
 * created before an event was accepted receives it: the message of the event has the revision of that time.
 */
export function createListeners({ store, clock }: { store: Store; clock: Clock }): FindListeners {
  const cache = createRevisionCache<Listeners>(
    clock,
    CACHE_SIZE,
    ({ webhooks, runs }) => 1 + webhooks.length + runs.length,
  );
  return async (emitter, names, revision) => {
    const keyOf = (name: string) => `${emitter.id} ${emitter.owner_id} ${name}`;
    const needed = revision ?? (await currentRevision(store, 'listeners'));
    const found = new Map<string, Listeners>();
    for (const name of names) {
      const listeners = cache.get(keyOf(name), needed);
      if (listeners) found.set(name, listeners);
    }
    const missing = names.filter((name) => !found.has(name));
    if (missing.length === 0) return found;
    const current = revision === undefined ? needed : await currentRevision(store, 'listeners');
    for (const [name, listeners] of await listenersOf(store, emitter, missing)) {
      cache.set(keyOf(name), listeners, current);
      found.set(name, listeners);
    }
    return found;
  };
}
