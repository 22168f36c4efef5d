import type { Deps } from '@wellspring/runtime/deps';
import type { Worker } from '@wellspring/runtime/service';
import { outbox } from '@wellspring/store/collections/outbox';
import type { Announcer } from './emitted.ts';

const EVERY_MS = 10_000;
/** Younger rows are being published by the run that made them. */
const AGE_MS = 30_000;

/** Publishes what a crash left between a commit and its announcement. */
export function outboxSweep(
  { store, clock, log }: Pick<Deps, 'store' | 'clock' | 'log'>,
  announcer: Announcer,
  alone: boolean,
): Worker {
  const rows = store.collection(outbox);
  return {
    name: 'runner.outbox-sweep',
    async run(signal) {
      // Where there is no other runner nothing is under way at the start: all that is there was left behind.
      let olderThan = alone ? clock.now() : clock.now() - AGE_MS;
      while (!signal.aborted) {
        const left = await rows.list({
          where: { created_at_ms: { lte: olderThan } },
          orderBy: 'created_at_ms',
          order: 'asc',
          limit: 100,
        });
        for (const row of left) {
          await announcer.announceAgain(row);
          await rows.remove(row.id);
        }
        if (left.length > 0) log.info({ count: left.length }, 'outbox.swept');
        if (left.length < 100) await clock.sleep(EVERY_MS, signal);
        olderThan = clock.now() - AGE_MS;
      }
    },
  };
}
