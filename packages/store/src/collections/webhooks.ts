import { parseEventId } from '@wellspring/core/event-id';
import { derivedId } from '@wellspring/core/ids';
import type { CollectionDefinition } from '../collection-definition.ts';
import { streamOf } from './find-event.ts';

/** Times are epoch ms, except those that the API shows in seconds: `created_at` and `updated_at`. */
export interface WebhookRow {
  id: string;
  owner_id: string;
  /** Id of its creator. */
  user_id: string;
  name: string | null;
  description: string | null;
  url: string;
  /** Of the body; absent: the emitted value alone. */
  payload_format?: 'envelope' | undefined;
  active: boolean;
  /** Its deletion has begun: it gets no further subscriptions. */
  deleting?: true;
  /** Sealed (core/seal). */
  secret: string;
  /** The previous secret, sealed; also signs until `old_secret_until`. */
  old_secret: string | null;
  old_secret_until: number | null;
  /** Replaced before the previous secret, not long ago: they sign, too. */
  older_secrets?: { secret: string; until: number }[] | undefined;
  /** First failure since the last success; null after a success. */
  failing_since: number | null;
  /** Failed attempts since the last success; null: never tried, or changed since. */
  failures: number | null;
  /** When `failures` was set: the latest of several processes counts. */
  tried_at: number;
  created_at: number;
  updated_at: number;
}
export const webhooks: CollectionDefinition<WebhookRow> = {
  name: 'webhooks',
  indexes: [{ fields: ['owner_id'] }],
  revision: { of: 'listeners', except: ['failing_since', 'failures', 'tried_at'] },
};

/** Replaced secrets that still sign, sealed, oldest first. @param now epoch ms */
export function formerSecrets(
  { old_secret, old_secret_until, older_secrets = [] }: WebhookRow,
  now: number,
): { secret: string; until: number }[] {
  const previous = old_secret === null ? [] : [{ secret: old_secret, until: old_secret_until ?? 0 }];
  return [...older_secrets, ...previous].filter(({ until }) => until > now);
}

export interface Attempt {
  /** 1 for the first. */
  n: number;
  /** Epoch ms. */
  at: number;
  duration_ms: number;
  /** HTTP status, or null without an answer. */
  status: number | null;
  error: string | null;
  /** First part of the response; absent without an answer. */
  headers?: Record<string, string>;
  body?: string;
}

/** State of a delivery before its first attempt. */
export const NOT_ATTEMPTED = {
  status: 'pending',
  attempts: 0,
  due_at: null,
  failed_at_ms: null,
  log: '',
} as const satisfies Partial<DeliveryRow>;

export interface DeliveryRow {
  id: string;
  /**
   * A request of a workflow (`$.send`) instead of a delivery; the payload is a Send (contract/messages), or after a
   * failure the RecordJob that is still to be published.
   */
  send?: true;
  /** Id of the replay of the event. */
  replay?: string;
  /** Of a `send`: id of the workflow. */
  webhook_id: string;
  owner_id: string;
  emitter_id: string | null;
  event_id: string | null;
  event_name: string;
  /** How many emits led here. */
  hop: number;
  status: 'pending' | 'delivered' | 'failed';
  /** Attempts since creation or recovery, those of a resend included: index in the retry table. */
  attempts: number;
  /** Epoch ms from which it may be claimed; during an attempt the end of the lease; null when done. */
  due_at: number | null;
  failed_at_ms: number | null;
  /** JSON text: the newest attempts, at most 20; empty before the first. See `attemptsOf`. */
  log: string;
  created_at: number;
  /** JSON text: the body. Empty when delivered: the event has it. */
  payload: string;
}
export const deliveries: CollectionDefinition<DeliveryRow> = {
  name: 'deliveries',
  indexes: [
    { fields: ['due_at'], sparse: true },
    { fields: ['webhook_id', 'due_at'], sparse: true },
    { fields: ['webhook_id', 'id'] },
    { fields: ['webhook_id', 'failed_at_ms'], sparse: true },
  ],
  texts: ['payload', 'log'],
  // The receiver has answered before; only the message of the event waits.
  insertsMayWait: true,
};

/** Body of a test, which has no event. */
export const TEST_PAYLOAD = '{"test":true}';

type Delivered = Pick<DeliveryRow, 'webhook_id' | 'emitter_id' | 'event_id' | 'event_name' | 'replay'>;

/** An event reaches a webhook once, and once by each replay. Undefined for a test. */
export function deliveryKeyOf(delivered: Delivered): string | undefined {
  const { webhook_id, emitter_id, event_id, event_name, replay } = delivered;
  if (event_id === null) return undefined;
  const key = `${webhook_id}/${emitter_id}/${streamOf(event_name)}/${event_id}`;
  return replay === undefined ? key : `${key}/replay/${replay}`;
}

/** Equal for a repeated fan-out. Sorts by the time of the event. @param replayedAt epoch ms of its replay */
export const deliveryId = (delivered: Delivered & { event_id: string }, replayedAt?: number): string =>
  derivedId('dlv', replayedAt ?? parseEventId(delivered.event_id)?.ms ?? 0, deliveryKeyOf(delivered)!);

export const attemptsOf = ({ log }: Pick<DeliveryRow, 'log'>): Attempt[] =>
  log === '' ? [] : JSON.parse(log);
