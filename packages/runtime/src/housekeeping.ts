import { prune } from '@wellspring/store/retention';
import type { Deps } from './deps.ts';
import type { BackgroundWorker } from './service.ts';

const INTERVAL_MS = 10 * 60_000;

type HousekeepingDeps = Pick<Deps, 'store' | 'blob' | 'clock' | 'log' | 'config'>;

/** Removes expired rows, at the start and then every ten minutes. */
export function housekeepingWorker({ store, blob, clock, log, config }: HousekeepingDeps): BackgroundWorker {
  async function clean(signal: AbortSignal): Promise<void> {
    const { retainEvents, retainDays, retainDeliveryDays } = config;
    const now = clock.now();
    // Neither waits for the other: one that fails does so at each attempt.
    const results = await Promise.allSettled([
      prune(store, { now, retainEvents, retainDays, retainDeliveryDays, signal }),
      blob.prune(now),
    ]);
    for (const one of results)
      if (one.status === 'rejected') log.warn({ error: String(one.reason) }, 'housekeeping.failed');
    const [rows, blobs] = results;
    if (rows.status === 'fulfilled' && blobs.status === 'fulfilled')
      log.debug({ ...rows.value, blobs: blobs.value }, 'housekeeping.done');
  }
  return {
    name: 'housekeeping',
    async run(signal) {
      while (!signal.aborted) {
        await clean(signal);
        // Not until a time of day, for which it would wait again after the clock was set back.
        await clock.sleep(INTERVAL_MS, signal);
      }
    },
  };
}
