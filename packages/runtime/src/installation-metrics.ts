import { QUEUES } from '@wellspring/queue/port';
import { outbox } from '@wellspring/store/collections/outbox';
import { deliveries } from '@wellspring/store/collections/webhooks';
import type { Deps } from './deps.ts';

/** Due deliveries are counted up to this number. */
const MAX_DUE = 10_000;

/**
 * Waiting work of the whole installation: every process with these metrics exposes the same values, apart from jobs that
 * it has taken, so they must not be summed over processes. Read for each scrape.
 */
export function installationMetrics({
  store,
  queue,
  clock,
  metrics,
}: Pick<Deps, 'store' | 'queue' | 'clock' | 'metrics'>): void {
  const outboxRows = store.collection(outbox);
  const deliveryRows = store.collection(deliveries);
  const secondsSince = (ms: number | null | undefined) =>
    ms === null || ms === undefined ? 0 : Math.max(0, clock.now() - ms) / 1000;

  for (const name of QUEUES) {
    metrics.gauge(
      'wellspring_queue_depth',
      'Jobs that wait for a process, and those that this one has taken',
      () => queue.depth(name),
      {
        queue: name,
      },
    );
  }
  metrics.gauge('wellspring_dead_letters', 'Jobs that were given up', () => queue.deadLetters.count());
  metrics.gauge(
    'wellspring_outbox_oldest_seconds',
    'Age of the oldest committed run that was not published to the fan-out',
    async () => {
      const [oldest] = await outboxRows.list({
        orderBy: 'created_at_ms',
        order: 'asc',
        limit: 1,
        texts: false,
      });
      return secondsSince(oldest?.created_at_ms);
    },
  );
  metrics.gauge(
    'wellspring_deliveries_overdue_seconds',
    'For how long the delivery that waits longest has been due, also while its webhook is paused',
    async () => {
      const [oldest] = await deliveryRows.list({
        where: { due_at: { lte: clock.now() } },
        orderBy: 'due_at',
        order: 'asc',
        limit: 1,
        texts: false,
      });
      return secondsSince(oldest?.due_at);
    },
  );
  metrics.gauge(
    'wellspring_deliveries_due',
    `Due deliveries that wait for a permit of their webhook, counted up to ${MAX_DUE}`,
    () => deliveryRows.count({ due_at: { lte: clock.now() } }, MAX_DUE),
  );
}
