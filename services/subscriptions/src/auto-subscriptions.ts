import {
  createAutoSubscription,
  deleteAutoSubscription,
  deleteAutoSubscriptionById,
  listAutoSubscriptions,
} from '@wellspring/contract/endpoints/auto-subscriptions';
import { LIMITS } from '@wellspring/contract/limits';
import { newId } from '@wellspring/core/ids';
import { notFound } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { canAccess, ownerFor } from '@wellspring/http/principal';
import type { Deps } from '@wellspring/runtime/deps';
import { checkRoom } from '@wellspring/store/check-room';
import { type AutoSubscriptionRow, autoSubscriptions } from '@wellspring/store/collections/subscriptions';
import { findOrInsert } from '@wellspring/store/insert-new';
import { checkListener, insertBetween } from './check-ends.ts';

const presentAutoSubscription = ({ id, event_name, listener_id, created_at }: AutoSubscriptionRow) => ({
  id,
  event_name,
  listener_id,
  created_at,
});

/** An emitter that is created gets a subscription for each auto-subscription of its owner: `autoSubscribe` in packages/store. */
export function autoSubscriptionRoutes({ store, clock }: Pick<Deps, 'store' | 'clock'>): Route[] {
  const rows = store.collection(autoSubscriptions);

  return [
    route(createAutoSubscription, async ({ principal, input }) => {
      const { owner_id, user_id } = ownerFor(principal, input.org_id);
      const { event_name, listener_id } = input;
      const unique = { owner_id, listener_id, event_name };
      const created_at = Math.floor(clock.now() / 1000);
      const check = () => checkListener(store, principal, listener_id);
      const insert = () =>
        findOrInsert(rows, unique, async () => {
          await checkRoom(rows, { owner_id }, LIMITS.autoSubscriptions, 'auto-subscriptions');
          return { id: newId('as'), user_id, ...unique, created_at };
        });
      return presentAutoSubscription(await insertBetween(rows, check, insert));
    }),

    route(listAutoSubscriptions, async ({ principal, input }) => {
      const { owner_id } = ownerFor(principal, input.org_id);
      return (await rows.list({ where: { owner_id } })).map(presentAutoSubscription);
    }),

    route(deleteAutoSubscription, async ({ principal, input }) => {
      const { owner_id } = ownerFor(principal, input.org_id);
      const { listener_id, event_name } = input;
      const removed = await rows.removeWhere({ owner_id, listener_id, event_name });
      if (removed === 0) throw notFound('auto-subscription');
    }),

    route(deleteAutoSubscriptionById, async ({ principal, params }) => {
      const row = await rows.get(params.id);
      if (!row || !canAccess(principal, row.owner_id) || !(await rows.remove(row.id))) {
        throw notFound('auto-subscription', params.id);
      }
    }),
  ];
}
