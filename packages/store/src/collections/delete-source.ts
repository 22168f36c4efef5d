import type { Store } from '../port.ts';
import { events, logs } from './events.ts';
import { outbox } from './outbox.ts';
import { deployments, endpoints, sources, timers } from './sources.ts';
import { states } from './states.ts';
import { subscriptions } from './subscriptions.ts';

/** Rows removed at a time, so that a source with many events holds up nobody else. */
const BATCH = 500;

/**
 * Removes a source and all that belongs to it. It is invisible after the first writes; repeating an interrupted
 * deletion finishes it. Its waiting jobs and processes are the caller's to end (queue.purgeKey, `runner.forget`).
 */
export async function deleteSourceRows(store: Store, sourceId: string): Promise<void> {
  await store.collection(endpoints).removeWhere({ source_id: sourceId });
  await store.collection(timers).removeWhere({ source_id: sourceId });
  await store.collection(subscriptions).removeWhere({ emitter_id: sourceId });
  await store.collection(subscriptions).removeWhere({ listener_id: sourceId });
  await store.collection(sources).remove(sourceId);
  await removeEmitterRows(store, sourceId);
  await store.collection(deployments).removeWhere({ source_id: sourceId });
}

/** Removes the events, logs and state of an emitter. */
export async function removeEmitterRows(store: Store, emitterId: string): Promise<void> {
  for (const stream of ['events', '$errors', '$in']) {
    while (
      (await store.collection(events).removeWhere({ partition: `${emitterId}/${stream}` }, BATCH)) === BATCH
    );
  }
  while ((await store.collection(logs).removeWhere({ emitter_id: emitterId }, BATCH)) === BATCH);
  await store.collection(outbox).removeWhere({ emitter_id: emitterId });
  await store.collection(states).remove(emitterId);
}
