import type { Store } from '../port.ts';
import { createReach } from './reach.ts';
import { sources } from './sources.ts';
import { type SubscriptionRow, subscriptions } from './subscriptions.ts';
import { members } from './users.ts';
import { webhooks } from './webhooks.ts';

/**
 * Ends a membership, and with it the subscriptions of that user one of whose ends is not reached any more. Gives
 * false when there was none.
 */
export async function endMembership(store: Store, orgId: string, userId: string): Promise<boolean> {
  const memberships = await store.collection(members).list({ where: { user_id: userId } });
  if (!(await store.collection(members).remove(`${orgId}/${userId}`))) return false;
  const owners = [userId, ...memberships.map(({ org_id }) => org_id)];
  const made = (await store.collection(subscriptions).list({ where: { owner_id: { in: owners } } })).filter(
    (subscription) => subscription.user_id === userId,
  );
  const reaches = createReach(store);
  const isReached = async (subscription: SubscriptionRow, endId: string) => {
    const owner = await ownerOf(store, subscription, endId);
    return owner !== undefined && (await reaches(subscription, owner));
  };
  for (const subscription of made) {
    const { id, emitter_id, listener_id } = subscription;
    const kept = (await isReached(subscription, emitter_id)) && (await isReached(subscription, listener_id));
    if (!kept) await store.collection(subscriptions).remove(id);
  }
  return true;
}

/** To whom an end of a subscription belongs; undefined when it is gone. */
async function ownerOf(
  store: Store,
  { owner_id }: SubscriptionRow,
  endId: string,
): Promise<string | undefined> {
  // A glob means what belongs to the owner of the subscription.
  if (endId.includes('*')) return owner_id;
  if (endId.startsWith('u_') || endId.startsWith('o_')) return endId;
  if (endId.startsWith('wh_')) return (await store.collection(webhooks).get(endId))?.owner_id;
  return (await store.collection(sources).get(endId))?.owner_id;
}
