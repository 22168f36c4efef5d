import { newId } from '@wellspring/core/ids';
import { findOrInsert } from '../insert-new.ts';
import type { Store } from '../port.ts';
import { autoSubscriptions, subscriptions } from './subscriptions.ts';

/**
 * Makes a subscription to a new emitter of each auto-subscription of its owner.
 * @param now epoch seconds
 */
export async function autoSubscribe(
  store: Store,
  emitter: { id: string; owner_id: string },
  now: number,
): Promise<void> {
  const rows = store.collection(subscriptions);
  const { id: emitter_id, owner_id } = emitter;
  for (const auto of await store.collection(autoSubscriptions).list({ where: { owner_id } })) {
    const { listener_id, event_name, user_id } = auto;
    const unique = { owner_id, emitter_id, listener_id, event_name };
    await findOrInsert(rows, unique, () => ({ id: newId('sub'), user_id, ...unique, created_at: now }));
  }
}
