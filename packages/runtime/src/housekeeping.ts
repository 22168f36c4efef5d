import { untilAborted } from '@wellspring/core/until-aborted';
import { prune } from '@wellspring/store/retention';
import cron from 'node-cron';
import type { Deps } from './deps.ts';
import type { BackgroundWorker } from './service.ts';

const EVERY_TEN_MINUTES = '*/10 * * * *';

type HousekeepingDeps = Pick<Deps, 'store' | 'blob' | 'clock' | 'log' | 'config'>;

/** Removes expired rows, at the start and then every ten minutes. */
export function housekeepingWorker({ store, blob, clock, log, config }: HousekeepingDeps): BackgroundWorker {
  async function clean(signal: AbortSignal): Promise<void> {
    const { retainEvents, retainDays, retainDeliveryDays } = config;
    try {
      const pruned = await prune(store, {
        now: clock.now(),
        retainEvents,
        retainDays,
        retainDeliveryDays,
        signal,
      });
      const blobs = await blob.prune(clock.now());
      log.debug({ ...pruned, blobs }, 'housekeeping.done');
    } catch (error) {
      log.warn({ error: String(error) }, 'housekeeping.failed');
    }
  }
  return {
    name: 'housekeeping',
    async run(signal) {
      const task = cron.schedule(EVERY_TEN_MINUTES, () => clean(signal), { noOverlap: true });
      await clean(signal);
      await untilAborted(signal);
      await task.destroy();
    },
  };
}
