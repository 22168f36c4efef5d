import type { Store } from '@wellspring/store/port';
import type { Job } from '../port.ts';
import { attempts } from './collections.ts';
import type { Overflow } from './overflow.ts';
import type { ReceivedJob } from './received-job.ts';
import type { StoreAccess } from './store-access.ts';

export interface HandOutOptions {
  store: Store;
  /** Of the lease. */
  epoch: number;
  overflow: Pick<Overflow, 'payloads'>;
  persist: StoreAccess['persist'];
}

/**
 * The jobs go to a handler: reads their payloads if they are rows, and their failed attempts if they are redelivered.
 * Waits while the lease is not certain; no jobs when it is lost.
 */
export function createHandOut({ store, epoch, overflow, persist }: HandOutOptions) {
  const attemptRows = store.collection(attempts);

  async function failuresOf(ids: readonly string[]): Promise<Map<string, number>> {
    if (ids.length === 0) return new Map();
    const found = await attemptRows.list({ where: { id: { in: ids } }, limit: ids.length });
    return new Map(found.map((row) => [row.id, row.attempts]));
  }

  return async (jobs: readonly ReceivedJob[]): Promise<Job[]> => {
    const unread = jobs.filter(({ payload }) => payload === undefined);
    const unknown = jobs.filter(({ hasAttempts }) => !hasAttempts);
    const [payloads, failures] = await Promise.all([
      overflow.payloads(unread.map(({ id }) => id)),
      persist('load attempts', () => failuresOf(unknown.map(({ id }) => id))),
    ]);
    // The reads may have taken longer than the lease was certain.
    const isCertain = await persist('start', async () => true);
    if (!payloads || !failures || !isCertain) return [];
    for (const job of unread) job.payload = payloads.get(job.id);
    for (const job of unknown) Object.assign(job, { attempts: failures.get(job.id) ?? 0, hasAttempts: true });
    return jobs.flatMap(({ id, key, payload, attempts: failed, publishedAt, redelivered }): Job[] => {
      // Its row was not found: the job waits until it is, see done() in partition.ts.
      if (payload === undefined) return [];
      const flag = redelivered && { redelivered };
      return [{ id, key, payload, attempt: failed + 1, published_at: publishedAt, epoch, ...flag }];
    });
  };
}
