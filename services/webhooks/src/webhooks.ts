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
import { canAccess, ownerFor } from '@wellspring/http/principal';
import { changedTopic } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import { deleteWebhookRows } from '@wellspring/store/collections/delete-webhook';
import { type WebhookRow, webhooks } from '@wellspring/store/collections/webhooks';
import { insertNew } from '@wellspring/store/insert-new';
import { modify } from '@wellspring/store/port';
import { ownWebhook } from './own.ts';
import { presentWebhook } from './present.ts';
import { checkUrl } from './url.ts';

/** Time for which the previous secret also signs after a rotation. */
export const ROTATION_MS = 24 * 3_600_000;

type WebhooksDeps = Pick<Deps, 'store' | 'pubsub' | 'clock' | 'seal'>;

/** Routes to create, read, update, rotate and delete webhooks. */
export function webhookRoutes({ store, pubsub, clock, seal }: WebhooksDeps): Route[] {
  const rows = store.collection(webhooks);
  const seconds = () => Math.floor(clock.now() / 1000);

  async function change(id: string, make: (row: WebhookRow) => WebhookRow): Promise<WebhookRow> {
    const row = await modify(rows, id, make);
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
      return { ...presentWebhook(row), secret };
    }),

    route(getWebhook, async ({ principal, params }) =>
      presentWebhook(await ownWebhook(store, principal, params.id)),
    ),

    route(listMyWebhooks, async ({ principal, input }) => {
      const { owner_id } = ownerFor(principal, input.org_id);
      const page = await listPage(rows, { owner_id }, input);
      return { ...page, data: page.data.map(presentWebhook) };
    }),

    route(listOrgWebhooks, async ({ principal, params, input }) => {
      if (!canAccess(principal, params.org_id)) throw notFound('organization', params.org_id);
      const page = await listPage(rows, { owner_id: params.org_id }, input);
      return { ...page, data: page.data.map(presentWebhook) };
    }),

    route(updateWebhook, async ({ principal, params, input }) => {
      await ownWebhook(store, principal, params.id);
      const url = input.url === undefined ? undefined : checkUrl(input.url);
      const row = await change(params.id, (old) => {
        const active = input.active ?? old.active;
        return {
          ...old,
          url: url ?? old.url,
          name: input.name === undefined ? old.name : input.name,
          description: input.description === undefined ? old.description : input.description,
          active,
          // A URL, even the same one, or a reactivation resets the failures.
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
      await ownWebhook(store, principal, params.id);
      const secret = newWebhookSecret();
      const sealed = seal.seal(secret, params.id);
      const row = await change(params.id, (old) => ({
        ...old,
        secret: sealed,
        old_secret: old.secret,
        // Milliseconds, unlike the times of the API.
        old_secret_until: clock.now() + ROTATION_MS,
        updated_at: seconds(),
      }));
      return { ...presentWebhook(row), secret };
    }),

    route(deleteWebhook, async ({ principal, params }) => {
      await ownWebhook(store, principal, params.id);
      if (!(await deleteWebhookRows(store, params.id))) throw notFound('webhook', params.id);
      pubsub.publish(changedTopic(params.id));
    }),
  ];
}
