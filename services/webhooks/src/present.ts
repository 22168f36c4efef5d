import {
  type Attempt,
  attemptsOf,
  type DeliveryRow,
  type WebhookRow,
} from '@wellspring/store/collections/webhooks';

/** A webhook in the API, without its secret. */
export const presentWebhook = (row: WebhookRow) => ({
  id: row.id,
  user_id: row.user_id,
  name: row.name,
  description: row.description,
  url: row.url,
  ...(row.payload_format && { payload_format: row.payload_format }),
  active: row.active,
  created_at: row.created_at,
  updated_at: row.updated_at,
});

const presentAttempt = ({ n, at, duration_ms, status, error, headers, body }: Attempt) => ({
  number: n,
  at: Math.floor(at / 1000),
  duration_ms,
  status,
  error,
  response_headers: headers ?? null,
  response_body: headers === undefined ? null : (body ?? ''),
});

/** A delivery in the API, with its attempts, newest first, if `log` is set. */
export const presentDelivery = (row: DeliveryRow, log = false) => ({
  id: row.id,
  webhook_id: row.webhook_id,
  emitter_id: row.emitter_id,
  event_id: row.event_id,
  event_name: row.event_name,
  status: row.status,
  attempts: row.attempts,
  next_attempt_at: row.due_at === null ? null : Math.ceil(row.due_at / 1000),
  created_at: row.created_at,
  ...(log && { attempt_log: attemptsOf(row).map(presentAttempt).reverse() }),
});
