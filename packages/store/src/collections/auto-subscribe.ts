import { LIMITS } from '@wellspring/contract/limits';
import { newId } from '@wellspring/core/ids';
import { checkRoom } from '../check-room.ts';
import { findOrInsert } from '../insert-new.ts';
import type { Store } from '../port.ts';
import { autoSubscriptions, subscriptions } from './subscriptions.ts';

/**
 * Makes a subscription to a new emitter of each auto-subscription of its owner.
 * @param now epoch seconds
 * @throws Problem 409 if the owner has no room for them
 */
export async function autoSubscribe(
  store: Store,
  emitter: { id: string; owner_id: string },
  now: number,
): Promise<void> {
  const rows = store.collection(subscriptions);
  const { id: emitter_id, owner_id } = emitter;
  const autos = () => store.collection(autoSubscriptions).list({ where: { owner_id } });
  /** By id of the auto-subscription. */
  const made = new Map<string, string>();
  const wanted = await autos();
  if (wanted.length === 0) return;
  await checkRoom(rows, { owner_id }, LIMITS.subscriptions, 'subscriptions', wanted.length);
  for (const { id, listener_id, event_name, user_id } of wanted) {
    const unique = { owner_id, emitter_id, listener_id, event_name };
    const make = () => ({ id: newId('sub'), user_id, ...unique, created_at: now });
    made.set(id, (await findOrInsert(rows, unique, make)).id);
  }
  // The deletion of a listener removes its auto-subscriptions first, but not what is inserted later.
  for (const { id } of await autos()) made.delete(id);
  if (made.size > 0) await rows.removeWhere({ id: { in: [...made.values()] } });
}
