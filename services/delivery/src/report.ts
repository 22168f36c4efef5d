import type { Log } from '@wellspring/core/log';
import type { Metrics } from '@wellspring/core/metrics';
import type { DeliveryRow } from '@wellspring/store/collections/webhooks';
import type { Reply, Verdict } from './outcome.ts';

/** Reports each attempt to a webhook to the log and the metrics. */
export function createReport({ log, metrics }: { log: Log; metrics: Metrics }) {
  const attempted = metrics.counter('wellspring_delivery_attempts_total', 'Attempts to deliver to webhooks', [
    'outcome',
  ]);
  const duration = metrics.histogram(
    'wellspring_delivery_attempt_seconds',
    'Time from sending to the answer',
  );
  return (row: DeliveryRow, { status, error, durationMs }: Reply, outcome: Verdict): void => {
    attempted.inc({ outcome });
    duration.observe(durationMs / 1000);
    const { id, webhook_id, emitter_id, event_id, attempts } = row;
    const fields = {
      delivery_id: id,
      webhook_id,
      emitter_id,
      event_id,
      attempt: attempts + 1,
      outcome,
      status,
      error,
      duration_ms: Math.round(durationMs),
    };
    if (outcome === 'delivered') log.debug(fields, 'delivery.attempted');
    else log.info(fields, 'delivery.attempted');
  };
}
