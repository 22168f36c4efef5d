import { CALLS } from '@wellspring/contract/calls';
import { changedTopic } from '@wellspring/pubsub/port';
import { deleteSourceRows } from '@wellspring/store/collections/delete-source';
import { deleteWorkflowRows } from '@wellspring/store/collections/delete-workflow';
import { isWorkflowId } from '@wellspring/store/collections/emitters';
import type { Deps } from './deps.ts';

const FORGET_TIMEOUT_MS = 5_000;

/**
 * Removes a source or workflow with its rows and its processes. Its own row is removed last: the service `sources` repeats
 * a removal that was interrupted, or during which the runner did not answer. The runner drops its waiting jobs, and answers
 * their callers.
 */
export async function removeEmitter(
  { store, pubsub, call, log }: Pick<Deps, 'store' | 'pubsub' | 'call' | 'log'>,
  id: string,
): Promise<void> {
  const deleteRows = isWorkflowId(id) ? deleteWorkflowRows : deleteSourceRows;
  await deleteRows(store, id, { keepOwn: true });
  pubsub.publish(changedTopic(id));
  let keepOwn = false;
  await call
    .request(CALLS.forget, { source_id: id }, { key: id, deadlineMs: FORGET_TIMEOUT_MS })
    .catch((error: unknown) => {
      log.warn({ source_id: id, error: String(error) }, 'source.forget_failed');
      keepOwn = true;
    });
  // A run in progress may have committed meanwhile.
  await deleteRows(store, id, { keepOwn });
}
