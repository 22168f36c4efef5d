import {
  createWebhook,
  deleteWebhook,
  getWebhook,
  listMyWebhooks,
  listOrgWebhooks,
  rotateWebhookSecret,
  updateWebhook,
} from '@wellspring/contract/endpoints/webhooks';
import { newId } from '@wellspring/core/ids';
import { notFound } from '@wellspring/core/problem';
import { newWebhookSecret } from '@wellspring/core/webhook-signature';
import { type Route, route } from '@wellspring/http/bind';
import { listPage } from '@wellspring/http/paging';
import { checkMember, ownerFor } from '@wellspring/http/principal';
import { changedTopic } from '@wellspring/pubsub/port';
import { checkOwner } from '@wellspring/runtime/check-owner';
import type { Deps } from '@wellspring/runtime/deps';
import { deleteWebhookRows } from '@wellspring/store/collections/delete-webhook';
import { formerSecrets, type WebhookRow, webhooks } from '@wellspring/store/collections/webhooks';
import { insertNew } from '@wellspring/store/insert-new';
import { modify } from '@wellspring/store/port';
import { requireOwnWebhook } from './own.ts';
import { presentWebhook } from './present.ts';
import { checkUrl } from './url.ts';

/** Time for which requests are also signed with the previous secret after a rotation. */
const ROTATION_MS = 24 * 3_600_000;
/** Each adds a signature to every delivery. */
const MAX_OLDER_SECRETS = 8;

type WebhooksDeps = Pick<Deps, 'store' | 'pubsub' | 'clock' | 'seal'>;

/** Routes to create, read, update, rotate and delete webhooks. */
export function webhookRoutes({ store, pubsub, clock, seal }: WebhooksDeps): Route[] {
  const rows = store.collection(webhooks);
  const seconds = () => Math.floor(clock.now() / 1000);

  async function update(id: string, change: (row: WebhookRow) => WebhookRow): Promise<WebhookRow> {
    const row = await modify(rows, id, change);
    if (!row) throw notFound('webhook', id);
    pubsub.publish(changedTopic(id));
    return row;
  }

  return [
    route(createWebhook, async ({ principal, input }) => {
      const { owner_id, user_id } = ownerFor(principal, input.org_id);
      const url = checkUrl(input.url);
      const secret = newWebhookSecret();
      const now = seconds();
      const row = await insertNew(rows, () => {
        const id = newId('wh');
        return {
          id,
          owner_id,
          user_id,
          name: input.name ?? null,
          description: input.description ?? null,
          url,
          ...(input.payload_format === 'envelope' && { payload_format: input.payload_format }),
          active: true,
          secret: seal.seal(secret, id),
          old_secret: null,
          old_secret_until: null,
          failing_since: null,
          failures: null,
          tried_at: 0,
          created_at: now,
          updated_at: now,
        };
      });
      await checkOwner(store, owner_id, () => rows.remove(row.id));
      return { ...presentWebhook(row), secret };
    }),

    route(getWebhook, async ({ principal, params }) =>
      presentWebhook(await requireOwnWebhook(store, principal, params.id)),
    ),

    route(listMyWebhooks, async ({ principal, input }) => {
      const { owner_id } = ownerFor(principal, input.org_id);
      const page = await listPage(rows, { owner_id }, input);
      return { ...page, data: page.data.map(presentWebhook) };
    }),

    route(listOrgWebhooks, async ({ principal, params, input }) => {
      checkMember(principal, params.org_id);
      const page = await listPage(rows, { owner_id: params.org_id }, input);
      return { ...page, data: page.data.map(presentWebhook) };
    }),

    route(updateWebhook, async ({ principal, params, input }) => {
      await requireOwnWebhook(store, principal, params.id);
      const url = input.url === undefined ? undefined : checkUrl(input.url);
      const row = await update(params.id, (old) => {
        const active = input.active ?? old.active;
        return {
          ...old,
          url: url ?? old.url,
          name: input.name === undefined ? old.name : input.name,
          description: input.description === undefined ? old.description : input.description,
          ...(input.payload_format && {
            payload_format: input.payload_format === 'envelope' ? input.payload_format : undefined,
          }),
          active,
          // Setting the URL, even to the same one, or reactivating clears the failures. Processes that
          // remember failures follow the row with the later `tried_at`.
          ...(((active && !old.active) || url !== undefined) && {
            failing_since: null,
            failures: null,
            tried_at: clock.now(),
          }),
          updated_at: seconds(),
        };
      });
      return presentWebhook(row);
    }),

    route(rotateWebhookSecret, async ({ principal, params }) => {
      await requireOwnWebhook(store, principal, params.id);
      const secret = newWebhookSecret();
      const sealed = seal.seal(secret, params.id);
      const row = await update(params.id, (old) => ({
        ...old,
        secret: sealed,
        old_secret: old.secret,
        old_secret_until: clock.now() + ROTATION_MS,
        older_secrets: formerSecrets(old, clock.now()).slice(-MAX_OLDER_SECRETS),
        updated_at: seconds(),
      }));
      return { ...presentWebhook(row), secret };
    }),

    route(deleteWebhook, async ({ principal, params }) => {
      await requireOwnWebhook(store, principal, params.id);
      if (!(await deleteWebhookRows(store, params.id))) throw notFound('webhook', params.id);
      pubsub.publish(changedTopic(params.id));
    }),
  ];
}
