import type { Deps } from '@wellspring/runtime/deps';
import { createRevisionCache, currentRevision } from '@wellspring/store/collections/revisions';
import { type EndpointRow, endpoints } from '@wellspring/store/collections/sources';

const CACHE_SIZE = 10_000;

/**
 * Finds active endpoints, in memory as long as no endpoint, source or listener was changed.
 * @returns a function that returns undefined for an endpoint that is unknown or inactive
 */
export function createFindEndpoint({ store, clock }: Pick<Deps, 'store' | 'clock'>) {
  const rows = store.collection(endpoints);
  const cache = createRevisionCache<EndpointRow>(clock, CACHE_SIZE);

  return async (key: string): Promise<EndpointRow | undefined> => {
    const revision = await currentRevision(store, 'listeners');
    const known = cache.get(key, revision);
    if (known) return known;
    const row = await rows.get(key);
    if (!row?.active) return undefined;
    cache.set(key, row, revision);
    return row;
  };
}
