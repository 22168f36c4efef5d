import { emitterPatterns, isGlob } from '@wellspring/core/glob';
import type { Store, Where } from '../port.ts';
import { findEmitter } from './emitters.ts';
import { autoSubscriptions, type SubscriptionRow, subscriptions } from './subscriptions.ts';
import { members } from './users.ts';
import { webhooks } from './webhooks.ts';

/** Two conditions, each of which selects subscriptions to an emitter. A glob matches only emitters of its owner. */
export function subscriptionsTo(emitter: { id: string; owner_id: string }): Where<SubscriptionRow>[] {
  const { id, owner_id } = emitter;
  const patterns = emitterPatterns(id, owner_id);
  return [
    { emitter_id: { in: patterns.filter((one) => !isGlob(one)) } },
    { emitter_id: { in: patterns.filter(isGlob) }, owner_id },
  ];
}

/** Of a subscription or auto-subscription. */
type Owned = Pick<SubscriptionRow, 'owner_id' | 'user_id'>;

/** Whether a subscription may use an end that belongs to `endOwner`. */
export type Reach = (subscription: Owned, endOwner: string) => Promise<boolean>;

/**
 * A subscription reaches emitters and listeners of its owner, and those of its creator and of organizations whose member
 * its creator is. One of an organization reaches the latter only while its creator is a member of that organization. The
 * returned function caches answers: create one per batch.
 */
export function createReach(store: Store): Reach {
  const known = new Map<string, Promise<boolean>>();
  const isMember = (orgId: string, userId: string) => {
    const id = `${orgId}/${userId}`;
    let answer = known.get(id);
    if (!answer) {
      answer = store
        .collection(members)
        .get(id)
        .then((row) => row !== undefined);
      known.set(id, answer);
    }
    return answer;
  };
  return async ({ owner_id, user_id }, endOwner) => {
    if (endOwner === owner_id) return true;
    // A former member must not carry events of the organization elsewhere.
    if (owner_id !== user_id && !(await isMember(owner_id, user_id))) return false;
    return endOwner === user_id || (endOwner.startsWith('o_') && isMember(endOwner, user_id));
  };
}

/**
 * Removes what a user created who left an organization or is being deleted: subscriptions and auto-subscriptions that no
 * longer reach their ends.
 */
export async function removeLostSubscriptions(store: Store, userId: string): Promise<void> {
  const reaches = createReach(store);
  const isLost = async (row: Owned, ids: string[]) => {
    const ends = await Promise.all(ids.map((id) => endOwner(store, id, row.owner_id)));
    const reached = await Promise.all(ends.map((end) => end === undefined || reaches(row, end)));
    return reached.includes(false);
  };
  const where = { user_id: userId };
  // First: a new source gets subscriptions from them.
  const autos = store.collection(autoSubscriptions);
  const lostAutos: string[] = [];
  for (const auto of await autos.list({ where })) {
    if (await isLost(auto, [auto.listener_id])) lostAutos.push(auto.id);
  }
  await autos.removeWhere({ id: { in: lostAutos } });
  const rows = store.collection(subscriptions);
  const lost: string[] = [];
  for (const row of await rows.list({ where })) {
    if (await isLost(row, [row.emitter_id, row.listener_id])) lost.push(row.id);
  }
  await rows.removeWhere({ id: { in: lost } });
}

/** Owner of an end; of a glob, the owner it names. Undefined if deleted, with its subscriptions. */
async function endOwner(store: Store, id: string, ownerOfGlob: string): Promise<string | undefined> {
  if (id.includes('*')) return ownerOfGlob;
  if (id.startsWith('u_') || id.startsWith('o_')) return id;
  const row: { owner_id: string } | undefined = id.startsWith('wh_')
    ? await store.collection(webhooks).get(id)
    : await findEmitter(store, id);
  return row?.owner_id;
}
