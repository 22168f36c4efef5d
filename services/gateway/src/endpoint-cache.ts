import type { IncomingMessage, ServerResponse } from 'node:http';
import { createLru } from '@wellspring/core/lru';
import { onceClosed } from '@wellspring/http/once-closed';
import type { Deps } from '@wellspring/runtime/deps';
import { type EndpointRow, endpoints } from '@wellspring/store/collections/sources';

/** Endpoints in memory. */
export interface EndpointCache {
  /** The endpoint; undefined if it is unknown or inactive. */
  find(key: string): Promise<EndpointRow | undefined>;
  /** Suspends the cache until the response to a request that may change endpoints is sent. */
  suspendDuring(req: IncomingMessage, res: ServerResponse): void;
}

const CACHE_SIZE = 10_000;
/** A change made through another gateway takes effect within this time. The runner drops calls of removed sources. */
const MAX_AGE_MS = 100;

/** Caches active endpoints, so that a hot one is not read for each call. A new endpoint is found at once. */
export function createEndpointCache({ store, clock }: Pick<Deps, 'store' | 'clock'>): EndpointCache {
  const rows = store.collection(endpoints);
  const cache = createLru<{ row: EndpointRow; at: number }>(CACHE_SIZE);
  let suspended = 0;
  /** Raised by each change; a row that was read before is not cached. */
  let changes = 0;

  function forgetAll(): void {
    changes += 1;
    cache.clear();
  }

  return {
    async find(key) {
      const known = cache.get(key);
      const at = clock.now();
      if (known && Math.abs(at - known.at) < MAX_AGE_MS) return known.row;
      const before = changes;
      const row = await rows.get(key);
      if (!row?.active) return undefined;
      if (suspended === 0 && changes === before) cache.set(key, { row, at });
      return row;
    },
    suspendDuring(req, res) {
      if (req.method === 'GET' || req.method === 'HEAD' || req.method === 'OPTIONS') return;
      suspended += 1;
      forgetAll();
      onceClosed(res, () => {
        suspended -= 1;
        forgetAll();
      });
    },
  };
}
