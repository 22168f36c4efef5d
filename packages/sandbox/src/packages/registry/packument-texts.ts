import { createFairPermits } from '@wellspring/core/fair-permits';
import { createLru } from '@wellspring/core/lru';
import { readBody, type Upstream } from './upstream.ts';

/** Packuments as the registry sends them, kept for a while: components published in bulk have packages in common. */
export interface PackumentTexts {
  /**
   * @param fresh a kept text does not do
   * @throws RegistryStatus, RegistryRefused, Error
   */
  get(url: string, options: { accept: string; fresh: boolean }): Promise<{ text: string; isKept: boolean }>;
}

/** Registries tell clients to keep packuments as long. */
const KEEP_MS = 5 * 60_000;
const MAX_CHARS = 64 * 1024 * 1024;
/** The largest packuments of the npm registry have about 30 MB. */
const MAX_BYTES = 64 * 1024 * 1024;
/** Larger ones are read one at a time. */
const SMALL_BYTES = 2 * 1024 * 1024;

export function createPackumentTexts(upstream: Pick<Upstream, 'get'>, now: () => number): PackumentTexts {
  const turns = createFairPermits({ total: 1 });
  const kept = createLru<{ text: string; at: number }>(MAX_CHARS, ({ text }) => text.length + 1);
  return {
    async get(url, { accept, fresh }) {
      const key = `${accept} ${url}`;
      const found = kept.get(key);
      if (found && !fresh && now() - found.at < KEEP_MS) return { text: found.text, isKept: true };
      const at = now();
      const body = await upstream.get(url, { accept });
      using held = new DisposableStack();
      const takeTurn = async () => void held.defer(await turns.acquire(''));
      const limits = { maxBytes: MAX_BYTES, smallBytes: SMALL_BYTES, takeTurn };
      const text = (await readBody(body, limits)).toString('utf8');
      kept.set(key, { text, at });
      return { text, isKept: false };
    },
  };
}
