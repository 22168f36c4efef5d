import type { Principal } from '@wellspring/contract/principal';
import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import { conflict, notFound } from '@wellspring/core/problem';
import { canAccess } from '@wellspring/http/principal';
import {
  type DeliveryRow,
  deliveries,
  type WebhookRow,
  webhooks,
} from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';

/** The webhook, if the principal may use it. @throws Problem 404, also for other tenants' webhooks */
export async function requireOwnWebhook(store: Store, principal: Principal, id: string): Promise<WebhookRow> {
  const row = await store.collection(webhooks).get(id);
  if (!row || !canAccess(principal, row.owner_id)) throw notFound('webhook', id);
  return row;
}

/** Deliveries with their payloads, of up to 6 MB each, that a process has in memory. */
const whole = createFairPermits({ total: 4 });

/** Uses the delivery with its payload, a few at a time, if the principal may. @throws Problem 404 */
export async function withOwnDelivery<T>(
  store: Store,
  principal: Principal,
  id: string,
  use: (delivery: DeliveryRow) => T | Promise<T>,
): Promise<T> {
  const rows = store.collection(deliveries);
  const [found] = await rows.list({ where: { id }, limit: 1, texts: false });
  if (!found || found.send || !canAccess(principal, found.owner_id)) throw notFound('delivery', id);
  return withPermit(whole, found.owner_id, async () => {
    const delivery = await rows.get(id);
    if (!delivery) throw notFound('delivery', id);
    return use(delivery);
  });
}

/** @throws Problem 409 for an inactive webhook */
export function requireActive(webhook: WebhookRow): void {
  if (!webhook.active) {
    throw conflict('webhook_inactive', `The webhook ${webhook.id} is inactive; enable it first.`);
  }
}
