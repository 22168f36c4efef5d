import type { Principal } from '@wellspring/contract/principal';
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

/** The delivery, if the principal may use it. @throws Problem 404 */
export async function requireOwnDelivery(
  store: Store,
  principal: Principal,
  id: string,
): Promise<DeliveryRow> {
  const row = await store.collection(deliveries).get(id);
  if (!row || row.send || !canAccess(principal, row.owner_id)) throw notFound('delivery', id);
  return row;
}

/** @throws Problem 409 for an inactive webhook */
export function requireActive(webhook: WebhookRow): void {
  if (!webhook.active) {
    throw conflict('webhook_inactive', `The webhook ${webhook.id} is inactive; enable it first.`);
  }
}
