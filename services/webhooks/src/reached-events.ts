import type { Principal } from '@wellspring/contract/principal';
import { canAccess } from '@wellspring/http/principal';
import { findEmitter } from '@wellspring/store/collections/emitters';
import { createReach, subscriptionsTo } from '@wellspring/store/collections/subscription-reach';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import type { DeliveryRow } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';

/**
 * Whether the principal may send the event of a delivery again: while the principal, or a subscription of the webhook,
 * reaches its emitter. Of an emitter that was deleted, only what the delivery holds is left. Answers are cached: create one
 * per call.
 */
export function createReachesEvent(store: Store, principal: Principal) {
  const reaches = createReach(store);
  const known = new Map<string, Promise<boolean>>();

  async function reachesEmitter(id: string, listener_id: string): Promise<boolean> {
    const emitter = await findEmitter(store, id);
    if (!emitter || canAccess(principal, emitter.owner_id)) return true;
    for (const where of subscriptionsTo(emitter)) {
      for (const row of await store.collection(subscriptions).list({ where: { ...where, listener_id } })) {
        if (await reaches(row, emitter.owner_id)) return true;
      }
    }
    return false;
  }

  return ({ emitter_id, webhook_id }: Pick<DeliveryRow, 'emitter_id' | 'webhook_id'>): Promise<boolean> => {
    if (emitter_id === null) return Promise.resolve(true);
    const key = `${emitter_id} ${webhook_id}`;
    const answer = known.get(key) ?? reachesEmitter(emitter_id, webhook_id);
    known.set(key, answer);
    return answer;
  };
}
