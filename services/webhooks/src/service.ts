import type { Deps } from '@wellspring/runtime/deps';
import type { Service } from '@wellspring/runtime/service';
import { deliveryRoutes } from './deliveries.ts';
import { webhookRoutes } from './webhooks.ts';

/** Webhooks and their deliveries as users see and steer them; service delivery does the sending. */
export function createWebhooksService(deps: Pick<Deps, 'store' | 'pubsub' | 'clock' | 'seal'>): Service {
  return { name: 'webhooks', routes: [...webhookRoutes(deps), ...deliveryRoutes(deps)] };
}
