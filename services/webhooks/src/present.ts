import type { DeliveryRow, WebhookRow } from '@wellspring/store/collections/webhooks';

/** A webhook in the API, without its secret. */
export const presentWebhook = (row: WebhookRow) => ({
  id: row.id,
  user_id: row.user_id,
  name: row.name,
  description: row.description,
  url: row.url,
  active: row.active,
  created_at: row.created_at,
  updated_at: row.updated_at,
});

/** A delivery in the API. */
export const presentDelivery = (row: DeliveryRow) => ({
  id: row.id,
  webhook_id: row.webhook_id,
  event_id: row.event_id,
  status: row.status,
  attempts: row.attempts,
  created_at: row.created_at,
});
