import type { Deps } from './deps.ts';
import type { Worker } from './service.ts';

const FIRST_BACKOFF_MS = 100;
/** Nothing waits for longer than this once a server is back that was away. */
const MAX_BACKOFF_MS = 2_000;
/** One that ran so long before it failed begins anew with the shortest backoff. */
const STEADY_MS = 60_000;

/**
 * Runs a worker until the signal is aborted or it is done. One that throws is restarted after a backoff: no
 * fault of a dependency needs a restart of the process. Never rejects.
 */
export async function keepRunning(
  { name, run }: Worker,
  signal: AbortSignal,
  { clock, log, metrics }: Pick<Deps, 'clock' | 'log' | 'metrics'>,
): Promise<void> {
  const failed = metrics.counter('wellspring_worker_failures_total', 'Workers that had to be restarted', [
    'worker',
  ]);
  let backoff = FIRST_BACKOFF_MS;
  while (!signal.aborted) {
    const begun = clock.now();
    try {
      await run(signal);
      return;
    } catch (error) {
      if (signal.aborted) return;
      failed.inc({ worker: name });
      if (clock.now() - begun > STEADY_MS) backoff = FIRST_BACKOFF_MS;
      const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
      log.error({ worker: name, error: reason, retry_in_ms: backoff }, 'worker.failed');
      await clock.sleep(backoff, signal);
      backoff = Math.min(2 * backoff, MAX_BACKOFF_MS);
    }
  }
}
