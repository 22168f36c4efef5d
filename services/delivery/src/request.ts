import { createHash } from 'node:crypto';
import { PLATFORM_VERSION } from '@wellspring/contract/limits';
import { parseEventId } from '@wellspring/core/event-id';
import { signatures } from '@wellspring/core/webhook-signature';
import { type DeliveryRow, deliveryKeyOf, type WebhookRow } from '@wellspring/store/collections/webhooks';

export const AGENT = `Wellspring/${PLATFORM_VERSION}`;

/** Like `encodeURIComponent`; lone surrogates become U+FFFD. */
const percentEncode = (text: string) => encodeURIComponent(text.toWellFormed());

/** A hash of webhook, emitter, stream and event; of a test, of its id. */
export const webhookIdOf = (row: DeliveryRow): string =>
  `msg_${createHash('sha256')
    .update(deliveryKeyOf(row) ?? row.id)
    .digest('hex')
    .slice(0, 32)}`;

/**
 * The body of a delivery, equal in all attempts: the payload, byte for byte; in the format `envelope`,
 * `{type, timestamp, id, emitter_id, data}` around it, as Standard Webhooks recommends.
 */
export function bodyOf(row: DeliveryRow, { payload_format }: Pick<WebhookRow, 'payload_format'>): string {
  if (payload_format !== 'envelope') return row.payload;
  const { event_id, event_name, emitter_id, created_at } = row;
  const ms = event_id === null ? created_at * 1000 : parseEventId(event_id)!.ms;
  const head = {
    type: event_name || 'event',
    timestamp: new Date(ms).toISOString(),
    id: event_id,
    emitter_id,
  };
  return `${JSON.stringify(head).slice(0, -1)},"data":${row.payload}}`;
}

/**
 * Headers of one attempt: Standard Webhooks and `x-wellspring-*`. `webhook-id` is the same in retries and resends, and in
 * a repetition after a crash; timestamp and signatures are new.
 * @param keys the current and, after a rotation, the previous signing key
 * @param now epoch ms
 */
export function headersOf(
  row: DeliveryRow,
  keys: readonly Buffer[],
  now: number,
  body: string,
): Record<string, string> {
  const id = webhookIdOf(row);
  const timestamp = Math.floor(now / 1000);
  const headers: Record<string, string> = {
    'content-type': 'application/json',
    'user-agent': AGENT,
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signatures(keys, id, timestamp, body),
    'x-wellspring-event-name': percentEncode(row.event_name),
    'x-wellspring-delivery-attempt': String(row.attempts + 1),
    'x-wellspring-hop-count': String(row.hop),
  };
  if (row.emitter_id !== null) headers['x-wellspring-emitter-id'] = row.emitter_id;
  if (row.replay !== undefined) headers['x-wellspring-replay'] = 'true';
  if (row.event_id !== null) headers['x-wellspring-event-id'] = row.event_id;
  return headers;
}
