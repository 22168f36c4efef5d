import { type Backoff, backoff } from '@wellspring/core/backoff';
import type { Deps } from './deps.ts';
import type { BackgroundWorker } from './service.ts';

const BACKOFF: Backoff = { baseMs: 100, maxMs: 2_000 };
/** A worker that ran for this long before it failed restarts with the shortest backoff. */
const STABLE_MS = 60_000;

/**
 * Runs a worker until the signal is aborted or it is done; restarts it after a backoff when it throws. Never rejects.
 */
export async function keepRunning(
  { name, run }: BackgroundWorker,
  signal: AbortSignal,
  { clock, log, metrics }: Pick<Deps, 'clock' | 'log' | 'metrics'>,
): Promise<void> {
  const failed = metrics.counter('wellspring_worker_failures_total', 'Workers that had to be restarted', [
    'worker',
  ]);
  let failures = 0;
  while (!signal.aborted) {
    const begun = clock.now();
    try {
      await run(signal);
      return;
    } catch (error) {
      if (signal.aborted) return;
      failed.inc({ worker: name });
      if (clock.now() - begun > STABLE_MS) failures = 0;
      const reason = error instanceof Error ? (error.stack ?? error.message) : String(error);
      failures += 1;
      const delay = backoff(failures, BACKOFF);
      log.error({ worker: name, error: reason, retry_in_ms: delay }, 'worker.failed');
      await clock.sleep(delay, signal);
    }
  }
}
