import { newId } from '@wellspring/core/ids';
import type { SourceRow } from '@wellspring/store/collections/sources';
import type { WebhookRow } from '@wellspring/store/collections/webhooks';

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
    created_at: 0,
    updated_at: 0,
    ...fields,
  };
}
