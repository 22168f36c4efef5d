import { type Backoff, backoff } from '@wellspring/core/backoff';
import type { Clock } from '@wellspring/core/clock';
import type { Log } from '@wellspring/core/log';
import type { Database } from '@wellspring/sqlite/database';

export interface FinishedJobs {
  /** Removes the rows of these jobs soon; those of all queues by one statement. */
  add(seqs: readonly number[]): void;
  /** Resolves when all rows are removed, or the removal has failed while the queue was closing. */
  removed(): Promise<void>;
}

const BACKOFF: Backoff = { baseMs: 100, maxMs: 30_000 };

/**
 * After a crash before the removal, the jobs are redelivered. The removal is retried until it succeeds: a later redelivery
 * would find no trace of the first one.
 */
export function createFinishedJobs(
  db: Database,
  { clock, log, closing }: { clock: Clock; log: Log; closing: AbortSignal },
): FinishedJobs {
  let finished: number[] = [];
  let removing: Promise<void> | undefined;

  async function remove(): Promise<void> {
    for (let failures = 0; finished.length > 0; ) {
      let seqs: number[] = [];
      try {
        await db.writeSoon(() => {
          seqs = [...seqs, ...finished];
          finished = [];
          if (seqs.length === 1) db.statement('DELETE FROM jobs WHERE seq = ?').run(seqs[0]!);
          else
            db.statement('DELETE FROM jobs WHERE seq IN (SELECT value FROM json_each(?))').run(
              JSON.stringify(seqs),
            );
        });
        failures = 0;
      } catch (error) {
        failures += 1;
        finished = [...seqs, ...finished];
        log.warn({ jobs: finished.length, error: String(error) }, 'queue.ack_failed');
        if (closing.aborted) break;
        await clock.sleep(backoff(failures, BACKOFF), closing);
      }
    }
    removing = undefined;
  }

  return {
    add(seqs) {
      finished.push(...seqs);
      removing ??= remove();
    },
    removed: async () => removing,
  };
}
