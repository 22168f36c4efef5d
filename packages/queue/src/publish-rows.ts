import { setImmediate } from 'node:timers/promises';
import { Unavailable } from '@wellspring/core/unavailable';
import { withTimeout } from '@wellspring/core/with-timeout';
import type { JobInput, Queue, QueueName } from './port.ts';

/** Time in which a job is confirmed, unless its part of the queue is unavailable. */
const CONFIRM_TIMEOUT_MS = 1_000;

interface RowsToPublish<T> {
  rows: readonly T[];
  jobOf(row: T): JobInput;
  /** Ends rows whose jobs are published. */
  end(rows: readonly T[]): Promise<unknown>;
}

/**
 * Publishes a job for each row that was claimed, then ends the row. Returns after CONFIRM_TIMEOUT_MS at the latest: jobs
 * for a part of the queue that is unavailable hold up no others. Their rows are ended if they are confirmed later; else
 * they keep their lease, and are claimed again when it has expired.
 * @returns the number of rows that were not ended in time, and the error of the first of them
 */
export async function publishRows<T>(
  queue: Pick<Queue, 'publish'>,
  name: QueueName,
  { rows, jobOf, end }: RowsToPublish<T>,
): Promise<{ failed: number; error?: string }> {
  let confirmed: T[] = [];
  let ending: Promise<void> | undefined;
  let left = rows.length;
  const errors: unknown[] = [];

  /** Rows that are confirmed together, or during a previous call, are ended by one call. */
  async function endConfirmed(): Promise<void> {
    try {
      await setImmediate();
      while (confirmed.length > 0) {
        const group = confirmed;
        confirmed = [];
        await end(group);
      }
    } finally {
      ending = undefined;
    }
  }

  async function publish(row: T): Promise<void> {
    try {
      await queue.publish(name, jobOf(row));
      confirmed.push(row);
      ending ??= endConfirmed();
      await ending;
      left -= 1;
    } catch (error) {
      errors.push(error);
    }
  }

  await withTimeout(Promise.all(rows.map(publish)), CONFIRM_TIMEOUT_MS);
  const unexpected = errors.find((error) => !(error instanceof Unavailable));
  if (unexpected) throw unexpected;
  if (left === 0) return { failed: 0 };
  return { failed: left, error: String(errors[0] ?? 'The queue did not confirm the job in time.') };
}
