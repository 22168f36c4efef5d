import type { Store } from '../port.ts';
import { removeAll } from '../remove-all.ts';
import { delayed } from './delayed.ts';
import { events, logs, marksOf } from './events.ts';
import { outbox } from './outbox.ts';
import { runningRuns } from './running-runs.ts';
import { deployments, endpoints, sources, timers } from './sources.ts';
import { states } from './states.ts';
import { autoSubscriptions, subscriptions } from './subscriptions.ts';

/** Owner of what is being deleted: hides it, and frees the slug of a source. */
export const DELETED_OWNER = 'deleted';

export interface RowsToKeep {
  /** The row of the source or workflow itself stays, so that the deletion is repeated. Default: false. */
  keepOwn?: boolean;
}

/**
 * Removes a source and all its rows. The first write hides and stops it; its row is removed last, with status `deleting`,
 * so that an interrupted deletion is found and repeated. For its jobs and processes see runtime/remove-emitter.
 */
export async function deleteSourceRows(
  store: Store,
  sourceId: string,
  { keepOwn = false }: RowsToKeep = {},
): Promise<void> {
  const rows = store.collection(sources);
  await rows.patch(sourceId, {
    status: 'deleting',
    transition: null,
    owner_id: DELETED_OWNER,
    name_slug: sourceId,
    active: false,
  });
  await Promise.all([
    store.collection(endpoints).removeWhere({ source_id: sourceId }),
    store.collection(timers).removeWhere({ source_id: sourceId }),
    removeSubscriptionsOf(store, sourceId),
  ]);
  await removeEmitterRows(store, sourceId);
  await store.collection(deployments).removeWhere({ source_id: sourceId });
  if (!keepOwn) await rows.remove(sourceId);
}

/** Removes the subscriptions from and to an emitter. At the same time, since each raises a revision, which waits. */
export async function removeSubscriptionsOf(store: Store, emitterId: string): Promise<void> {
  await Promise.all([
    store.collection(subscriptions).removeWhere({ emitter_id: emitterId }),
    store.collection(subscriptions).removeWhere({ listener_id: emitterId }),
    store.collection(autoSubscriptions).removeWhere({ listener_id: emitterId }),
  ]);
}

/** Removes the events, delayed ones too, logs and state of an emitter. */
export async function removeEmitterRows(store: Store, emitterId: string): Promise<void> {
  for (const stream of ['events', '$errors', '$in', '$sse'])
    await removeAll(store.collection(events), { partition: `${emitterId}/${stream}` });
  for (const emitter_id of [emitterId, marksOf(emitterId)])
    await removeAll(store.collection(logs), { emitter_id });
  await removeAll(store.collection(delayed), { emitter_id: emitterId });
  await store.collection(outbox).removeWhere({ emitter_id: emitterId });
  await store.collection(runningRuns).removeWhere({ emitter_id: emitterId });
  await store.collection(states).remove(emitterId);
}
