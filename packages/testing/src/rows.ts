import { newId, newSecret } from '@wellspring/core/ids';
import type { EventRow, LogRow } from '@wellspring/store/collections/events';
import type { EndpointRow, SourceRow } from '@wellspring/store/collections/sources';
import type { SubscriptionRow } from '@wellspring/store/collections/subscriptions';
import type { OrgRow, UserRow } from '@wellspring/store/collections/users';
import type { DeliveryRow, WebhookRow } from '@wellspring/store/collections/webhooks';

/** Owner of the rows below, and the user id of `ALICE`. */
export const OWNER = 'u_0000000001';

/** A stored live source. */
export function sourceRow(fields: Partial<SourceRow> = {}): SourceRow {
  const { id = newId('dc'), owner_id = OWNER } = fields;
  return {
    id,
    owner_id,
    user_id: owner_id,
    component_id: 'sc_0000000000',
    deployment_id: 'd_0000000000',
    name: id,
    name_slug: id,
    active: true,
    concurrency: 1,
    reply_by: null,
    status: 'live',
    transition: null,
    created_at: 0,
    updated_at: 0,
    ...fields,
  };
}

/** A stored active webhook. */
export function webhookRow(fields: Partial<WebhookRow> = {}): WebhookRow {
  const { id = newId('wh'), owner_id = OWNER } = fields;
  return {
    id,
    owner_id,
    user_id: owner_id,
    name: null,
    description: null,
    url: 'https://example.com/hook',
    active: true,
    secret: '',
    old_secret: null,
    old_secret_until: null,
    failing_since: null,
    failures: null,
    tried_at: 0,
    created_at: 0,
    updated_at: 0,
    ...fields,
  };
}

/** A stored subscription. */
export function subscriptionRow(
  ends: Pick<SubscriptionRow, 'emitter_id' | 'listener_id'> & Partial<SubscriptionRow>,
): SubscriptionRow {
  const { owner_id = OWNER } = ends;
  return { id: newId('sub'), owner_id, user_id: owner_id, event_name: '', created_at: 0, ...ends };
}

/** A stored event; partition and channel follow from `stream` and `name`. */
export function eventRow(emitterId: string, sortKey: string, fields: Partial<EventRow> = {}): EventRow {
  const { stream = 'events', name = '' } = fields;
  const partition = `${emitterId}/${stream}`;
  return {
    id: `${partition}/${sortKey}`,
    emitter_id: emitterId,
    stream,
    partition,
    channel: name === '' ? null : `${partition}/${name}`,
    sort_key: sortKey,
    run_id: 'run_0000000000',
    indexed_at_ms: 0,
    name,
    emit_id: 'e',
    meta_id: null,
    summary: null,
    ts: null,
    payload: '1',
    ...fields,
  };
}

/** A stored row of log records, one unless `fields` say otherwise. */
export const logRow = (emitterId: string, sortKey: string, fields: Partial<LogRow> = {}): LogRow => ({
  id: `${emitterId}/${sortKey}`,
  emitter_id: emitterId,
  sort_key: sortKey,
  run_id: 'run_1',
  indexed_at_ms: 0,
  count: 1,
  records: '[{}]',
  ...fields,
});

/** A stored user without quotas. */
export const userRow = (fields: Partial<UserRow> = {}): UserRow => ({
  id: OWNER,
  username: 'alice',
  email: 'alice@example.com',
  plan: 'free',
  daily_invocations_quota: null,
  daily_compute_time_quota: null,
  created_at: 0,
  updated_at: 0,
  ...fields,
});

/** A stored organization. */
export const orgRow = (id: string, fields: Partial<OrgRow> = {}): OrgRow => ({
  ...{ id, orgname: id, name: id, email: '', code_allow_networks: [], created_at: 0, updated_at: 0 },
  ...fields,
});

/** A stored active endpoint. */
export const endpointRow = (fields: Partial<EndpointRow> = {}): EndpointRow => ({
  id: `e${newSecret()}`,
  source_id: newId('dc'),
  owner_id: OWNER,
  prop: 'http',
  active: true,
  custom_response: false,
  concurrency: 1,
  reply_by: null,
  ...fields,
});

/** A stored delivery that waits for its first attempt, but is not due. */
export function deliveryRow(fields: Partial<DeliveryRow> = {}): DeliveryRow {
  return {
    id: newId('dlv'),
    webhook_id: 'wh_0000000000',
    owner_id: OWNER,
    emitter_id: 'dc_0000000000',
    event_id: '1700000000000-0',
    event_name: '',
    hop: 1,
    status: 'pending',
    attempts: 0,
    due_at: null,
    failed_at_ms: null,
    log: '',
    created_at: 0,
    payload: '1',
    ...fields,
  };
}
