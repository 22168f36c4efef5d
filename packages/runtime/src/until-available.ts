import { type Backoff, backoff } from '@wellspring/core/backoff';
import { AccessDenied, Unavailable } from '@wellspring/core/unavailable';
import type { Config } from './config.ts';
import type { Deps } from './deps.ts';

const RETRY: Backoff = { baseMs: 100, maxMs: 2_000 };

/**
 * In the distributed mode, repeats idempotent work of the start while a server does not answer: it may go away again
 * before all others have come. In the embedded mode a full disk does not end by itself, and a right has to be granted.
 * @throws other errors of the work
 */
export async function untilAvailable<T>(
  { mode, clock, log }: Pick<Deps, 'clock' | 'log'> & Pick<Config, 'mode'>,
  work: () => Promise<T>,
): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await work();
    } catch (error) {
      const isTransient = error instanceof Unavailable && !(error instanceof AccessDenied);
      if (mode === 'embedded' || !isTransient) throw error;
      const delay = backoff(failures, RETRY);
      log.warn({ error: error.message, retry_in_ms: delay }, 'process.waiting');
      await clock.sleep(delay);
    }
  }
}
