import type { Deps } from '@wellspring/runtime/deps';
import type { BackgroundWorker } from '@wellspring/runtime/service';
import { outbox } from '@wellspring/store/collections/outbox';
import type { OutboxRelay } from './outbox-relay.ts';

const SWEEP_INTERVAL_MS = 10_000;
/** Younger rows are still being published by their run. */
const MIN_AGE_MS = 30_000;

/** Publishes outbox rows that a crash left between commit and publish. */
export function outboxSweep(
  { store, clock, log }: Pick<Deps, 'store' | 'clock' | 'log'>,
  relay: OutboxRelay,
): BackgroundWorker {
  const rows = store.collection(outbox);
  return {
    name: 'runner.outbox-sweep',
    async run(signal) {
      while (!signal.aborted) {
        const found = await rows.list({
          where: { created_at_ms: { lte: clock.now() - MIN_AGE_MS } },
          orderBy: 'created_at_ms',
          order: 'asc',
          limit: 100,
        });
        for (const row of found) {
          await relay.publishRedelivered(row);
          await rows.remove(row.id);
        }
        if (found.length > 0) log.info({ count: found.length }, 'outbox.swept');
        if (found.length < 100) await clock.sleep(SWEEP_INTERVAL_MS, signal);
      }
    },
  };
}
