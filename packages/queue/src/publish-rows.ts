import { Unavailable } from '@wellspring/core/unavailable';
import type { JobInput, Queue, QueueName } from './port.ts';

interface RowsToPublish<T> {
  rows: readonly T[];
  /** @param isRepeated the job may have been published before */
  jobOf(row: T, isRepeated: boolean): JobInput;
  /** Ends rows whose jobs are published. */
  end(rows: readonly T[]): Promise<unknown>;
}

/**
 * Publishes a job for each row that was claimed, then ends the row. While a part of the queue is unavailable, the rows
 * of other keys are published one by one; the others keep their lease, and are claimed again when it has expired.
 * @returns the number of rows that were not ended, and the error of the first of them
 */
export async function publishRows<T>(
  queue: Pick<Queue, 'publish' | 'publishMany'>,
  name: QueueName,
  { rows, jobOf, end }: RowsToPublish<T>,
): Promise<{ failed: number; error?: string }> {
  try {
    await queue.publishMany(
      name,
      rows.map((row) => jobOf(row, false)),
    );
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    const outcomes = await Promise.allSettled(
      rows.map(async (row) => {
        // It may have been published with the others.
        await queue.publish(name, jobOf(row, true));
        await end([row]);
      }),
    );
    const [first, ...others] = outcomes.filter((outcome) => outcome.status === 'rejected');
    return first ? { failed: 1 + others.length, error: String(first.reason) } : { failed: 0 };
  }
  await end(rows);
  return { failed: 0 };
}
