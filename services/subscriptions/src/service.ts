import type { Deps } from '@wellspring/runtime/deps';
import type { Service } from '@wellspring/runtime/service';
import { autoSubscriptionRoutes } from './auto-subscriptions.ts';
import { subscriptionRoutes } from './subscriptions.ts';

/** Subscriptions: from an emitter and one of its channels to a listener. */
export function createSubscriptionsService(deps: Pick<Deps, 'store' | 'clock'>): Service {
  return { name: 'subscriptions', routes: [...subscriptionRoutes(deps), ...autoSubscriptionRoutes(deps)] };
}
