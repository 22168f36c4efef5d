import type { SubscriptionRow } from '@wellspring/store/collections/subscriptions';
import { members } from '@wellspring/store/collections/users';
import type { Store } from '@wellspring/store/port';

/** Whether a subscription may still use an end that belongs to `endOwner`. */
export type Reach = (subscription: SubscriptionRow, endOwner: string) => Promise<boolean>;

/**
 * An end is reached when it belongs to the owner of the subscription; otherwise through who created it: an end of an
 * organization by being its member, an own end in a subscription of an organization by being a member of that one.
 * Answers are kept as long as the returned function is, so make one for each batch.
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
    if (endOwner === user_id) return isMember(owner_id, user_id);
    return endOwner.startsWith('o_') && isMember(endOwner, user_id);
  };
}
