import type { Store } from '@wellspring/store/port';
import type { DeadLetter, JobInput, Queue, QueueName } from './port.ts';
import { deadLetterRows } from './rabbitmq-rows.ts';

/** Dead letters as rows of the store. @param publish of the queue that they belong to */
export function createDeadLetters(
  store: Store,
  publish: (queue: QueueName, job: JobInput) => Promise<void>,
): Queue['deadLetters'] & { bury(letter: DeadLetter): Promise<void> } {
  const rows = store.collection(deadLetterRows);
  return {
    /** Repeating it is harmless. */
    async bury(letter) {
      await rows.insertMany([letter]);
    },
    list: ({ after, limit = 100 } = {}) =>
      rows.list({ ...(after === undefined ? {} : { where: { id: { lt: after } } }), order: 'desc', limit }),
    get: (id) => rows.get(id),
    count: () => rows.count(),
    async redrive(id) {
      const letter = await rows.get(id);
      if (!letter) return false;
      // Twice rather than never, should this process die in between.
      await publish(letter.queue, { key: letter.key, payload: letter.payload });
      return rows.remove(id);
    },
    drop: (id) => rows.remove(id),
  };
}
