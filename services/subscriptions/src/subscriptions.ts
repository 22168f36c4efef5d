import {
  createSubscription,
  deleteSubscription,
  deleteSubscriptionById,
  findSubscriptions,
  listMySubscriptions,
  listOrgSubscriptions,
} from '@wellspring/contract/endpoints/subscriptions';
import { LIMITS } from '@wellspring/contract/limits';
import { newId } from '@wellspring/core/ids';
import { notFound } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { canAccess, checkMember, ownerFor } from '@wellspring/http/principal';
import type { Deps } from '@wellspring/runtime/deps';
import { checkRoom } from '@wellspring/store/check-room';
import { type SubscriptionRow, subscriptions } from '@wellspring/store/collections/subscriptions';
import { findOrInsert } from '@wellspring/store/insert-new';
import type { Store } from '@wellspring/store/port';
import { checkEmitter, checkEventName, checkListener, insertBetween } from './check-ends.ts';

const presentSubscription = (row: SubscriptionRow) => ({
  id: row.id,
  emitter_id: row.emitter_id,
  listener_id: row.listener_id,
  event_name: row.event_name,
  created_at: row.created_at,
});

type SubscriptionKey = Pick<SubscriptionRow, 'owner_id' | 'emitter_id' | 'listener_id' | 'event_name'>;

/** Finds or creates the subscription with this key. @throws Problem 409 */
function subscribe(
  store: Store,
  key: SubscriptionKey,
  userId: string,
  now: number,
): Promise<SubscriptionRow> {
  const rows = store.collection(subscriptions);
  return findOrInsert(rows, key, async () => {
    await checkRoom(rows, { owner_id: key.owner_id }, LIMITS.subscriptions, 'subscriptions');
    return { id: newId('sub'), ...key, user_id: userId, created_at: Math.floor(now / 1000) };
  });
}

/** Routes of subscriptions. The delivery service reads the rows for every event. */
export function subscriptionRoutes({ store, clock }: Pick<Deps, 'store' | 'clock'>): Route[] {
  const rows = store.collection(subscriptions);

  return [
    route(createSubscription, async ({ principal, input }) => {
      const { owner_id, user_id } = ownerFor(principal, input.org_id);
      const key = {
        owner_id,
        emitter_id: input.emitter_id,
        listener_id: input.listener_id,
        event_name: checkEventName(input.event_name),
      };
      const check = async () => {
        await checkEmitter(store, principal, key.emitter_id);
        await checkListener(store, principal, key.listener_id);
      };
      const insert = () => subscribe(store, key, user_id, clock.now());
      return presentSubscription(await insertBetween(rows, check, insert));
    }),

    route(deleteSubscription, async ({ principal, input }) => {
      const { owner_id } = ownerFor(principal, input.org_id);
      const { emitter_id, listener_id } = input;
      const event_name = checkEventName(input.event_name);
      const removed = await rows.removeWhere({ owner_id, emitter_id, listener_id, event_name });
      if (removed === 0) throw notFound('subscription');
    }),

    route(deleteSubscriptionById, async ({ principal, params }) => {
      const row = await rows.get(params.id);
      if (!row || !canAccess(principal, row.owner_id) || !(await rows.remove(row.id))) {
        throw notFound('subscription', params.id);
      }
    }),

    route(findSubscriptions, async ({ principal, input }) => {
      const { owner_id } = ownerFor(principal, input.org_id);
      const { emitter_id, listener_id, event_name } = input;
      const found = await rows.list({
        where: {
          owner_id,
          ...(emitter_id !== undefined && { emitter_id }),
          ...(listener_id !== undefined && { listener_id }),
          ...(event_name !== undefined && { event_name }),
        },
      });
      return found.map(presentSubscription);
    }),

    // With org_id: those of the organization.
    route(listMySubscriptions, async ({ principal, input }) => {
      const { owner_id } = ownerFor(principal, input.org_id);
      return (await rows.list({ where: { owner_id } })).map(presentSubscription);
    }),

    route(listOrgSubscriptions, async ({ principal, params }) => {
      checkMember(principal, params.org_id);
      return (await rows.list({ where: { owner_id: params.org_id } })).map(presentSubscription);
    }),
  ];
}
