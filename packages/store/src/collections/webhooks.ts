import type { CollectionDefinition } from '../collection-definition.ts';

export interface WebhookRow {
  id: string;
  owner_id: string;
  /** Id of its creator. */
  user_id: string;
  name: string | null;
  description: string | null;
  url: string;
  active: boolean;
  /** Sealed (core/seal). */
  secret: string;
  /** The previous secret, sealed; also signs until `old_secret_until`. */
  old_secret: string | null;
  /** Epoch ms. */
  old_secret_until: number | null;
  /** Epoch ms of the first failure since the last success; null after a success. */
  failing_since: number | null;
  created_at: number;
  updated_at: number;
}
export const webhooks: CollectionDefinition<WebhookRow> = {
  name: 'webhooks',
  indexes: [{ fields: ['owner_id'] }],
};

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

export interface DeliveryRow {
  id: string;
  /**
   * A request of a workflow (`$.send`) instead of a delivery; the payload is a Send (contract/messages), or after a
   * failure the RecordJob that is still to be published.
   */
  send?: true;
  /** The event was replayed. */
  replay?: true;
  /** Of a `send`: id of the workflow. */
  webhook_id: string;
  owner_id: string;
  /**
   * `<webhook_id>/<emitter_id>/<stream>/<event_id>`: an event reaches a webhook once, and once by each replay
   * (`…/replay/<replay id>`). Of a `send`: its id. Null for a test.
   */
  dedupe_key: string | null;
  emitter_id: string | null;
  event_id: string | null;
  event_name: string;
  /** How many emits led here. */
  hop: number;
  status: 'pending' | 'delivered' | 'failed';
  /** Attempts since creation or resend: index in the retry table. */
  attempts: number;
  /** Epoch ms from which it may be claimed; during an attempt the end of the lease; null when done or parked. */
  due_at: number | null;
  /** The webhook's id while parked; else null. */
  waiting: string | null;
  failed_at_ms: number | null;
  /** JSON text: the newest attempts, at most 20; empty before the first. See `attemptsOf`. */
  log: string;
  created_at: number;
  /** Start of retention: creation or last manual resend. */
  created_at_ms: number;
  /** JSON text: the body. */
  payload: string;
}
export const deliveries: CollectionDefinition<DeliveryRow> = {
  name: 'deliveries',
  indexes: [
    { fields: ['dedupe_key'], unique: true },
    { fields: ['due_at'], sparse: true },
    { fields: ['waiting'], sparse: true },
    { fields: ['webhook_id', 'id'] },
    { fields: ['webhook_id', 'failed_at_ms'], sparse: true },
    { fields: ['created_at_ms'] },
  ],
  texts: ['payload', 'log'],
};

export const attemptsOf = ({ log }: Pick<DeliveryRow, 'log'>): Attempt[] =>
  log === '' ? [] : JSON.parse(log);
