import type { Deps } from '@wellspring/runtime/deps';
import type { Service } from '@wellspring/runtime/service';
import { deliveryRoutes } from './deliveries.ts';
import { webhookRoutes } from './webhooks.ts';

/** Routes of webhooks and deliveries; the service `delivery` sends them. */
export function createWebhooksService(deps: Pick<Deps, 'store' | 'pubsub' | 'clock' | 'seal'>): Service {
  return { name: 'webhooks', routes: [...webhookRoutes(deps), ...deliveryRoutes(deps)] };
}
