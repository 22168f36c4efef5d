import type { Clock } from '@wellspring/core/clock';
import type { Metrics } from '@wellspring/core/metrics';
import type { Queue } from '@wellspring/queue/port';

/** Wraps a queue: measures waiting times and failures of jobs at the consumer. */
export function measuredQueue(queue: Queue, { metrics, clock }: { metrics: Metrics; clock: Clock }): Queue {
  const wait = metrics.histogram(
    'wellspring_queue_wait_seconds',
    'Time from the publication of a job to its first handling, of the first job of each batch',
    ['queue'],
  );
  const failed = metrics.counter('wellspring_queue_failures_total', 'Batches of jobs that failed', ['queue']);
  return {
    ...queue,
    consume(name, handler, options) {
      const labels = { queue: name };
      const measured: typeof handler = async (jobs, ...controls) => {
        const [{ attempt, published_at }] = jobs;
        // Clocks of two machines may differ.
        if (attempt === 1) wait.observe(Math.max(0, clock.now() - published_at) / 1000, labels);
        try {
          await handler(jobs, ...controls);
        } catch (error) {
          failed.inc(labels);
          throw error;
        }
      };
      return queue.consume(name, measured, options);
    },
  };
}
