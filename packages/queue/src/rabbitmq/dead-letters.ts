import type { Clock } from '@wellspring/core/clock';
import { newSecret } from '@wellspring/core/ids';
import type { Store } from '@wellspring/store/port';
import { type DeadLetter, type JobInput, MAX_LISTED_CHARS, type Queue, type QueueName } from '../port.ts';
import { deadLetters } from './collections.ts';

export interface NewDeadLetter extends Omit<DeadLetter, 'id' | 'died_at'> {
  /** Id of the job. */
  job: string;
}

/** Dead letters in the store. @param redrive publishes a job, flagged as redelivered */
export function createDeadLetters(
  store: Store,
  clock: Clock,
  redrive: (queue: QueueName, job: JobInput) => Promise<void>,
): Queue['deadLetters'] & { addDeadLetter(dead: NewDeadLetter): Promise<void> } {
  const rows = store.collection(deadLetters);
  let last = 0;
  /** Ascending with time, for the order of `list`. */
  function nextId(): string {
    last = Math.max(last + 1, clock.now() * 1_000);
    return `${String(last).padStart(17, '0')}-${newSecret().slice(0, 8)}`;
  }
  return {
    /** Idempotent. */
    async addDeadLetter(dead) {
      await rows.insertMany([{ ...dead, id: nextId(), died_at: clock.now() }]);
    },
    async list({ after, limit = 100 } = {}) {
      const found: DeadLetter[] = [];
      let chars = 0;
      // Further pages: all of the last one may have been redriven meanwhile.
      for (let before = after; found.length === 0; ) {
        const where = before === undefined ? {} : { where: { id: { lt: before } } };
        const page = await rows.list({ ...where, order: 'desc', limit, texts: false });
        if (page.length === 0) break;
        before = page.at(-1)!.id;
        for (const { id } of page) {
          const row = await rows.get(id);
          if (!row) continue;
          const { job: _, ...letter } = row;
          found.push(letter);
          chars += letter.payload.length;
          if (chars >= MAX_LISTED_CHARS) break;
        }
      }
      return found;
    },
    count: () => rows.count(),
    async redrive(id) {
      const row = await rows.get(id);
      if (!row) return false;
      // Published before it is removed: a crash in between duplicates the job instead of losing it.
      await redrive(row.queue, { key: row.key, payload: row.payload });
      return rows.remove(id);
    },
    drop: (id) => rows.remove(id),
  };
}
