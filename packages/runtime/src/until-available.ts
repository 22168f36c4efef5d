import { type Backoff, backoff } from '@wellspring/core/backoff';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Deps } from './deps.ts';

const RETRY: Backoff = { baseMs: 100, maxMs: 2_000 };

/**
 * Repeats idempotent work of the start while a server does not answer: it may go away again before all others have
 * come.
 * @throws other errors of the work
 */
export async function untilAvailable<T>(
  { clock, log }: Pick<Deps, 'clock' | 'log'>,
  work: () => Promise<T>,
): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      const delay = backoff(failures, RETRY);
      log.warn({ error: error.message, retry_in_ms: delay }, 'process.waiting');
      await clock.sleep(delay);
    }
  }
}
