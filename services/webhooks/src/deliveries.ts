import {
  getDelivery,
  listWebhookDeliveries,
  recoverWebhook,
  resendDelivery,
  testWebhook,
} from '@wellspring/contract/endpoints/webhooks';
import { newId } from '@wellspring/core/ids';
import { gone, notFound } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { DELIVERIES_DUE } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import { payloadOfEvent } from '@wellspring/store/collections/find-event';
import { type DeliveryRow, deliveries, TEST_PAYLOAD } from '@wellspring/store/collections/webhooks';
import { insertNew } from '@wellspring/store/insert-new';
import { findDeliveries } from './find-deliveries.ts';
import { requireActive, requireOwnWebhook, withOwnDelivery } from './own.ts';
import { presentDelivery } from './present.ts';
import { createReachesEvent } from './reached-events.ts';
import { parseTime } from './time.ts';

const BATCH_SIZE = 500;

type DeliveriesDeps = Pick<Deps, 'store' | 'pubsub' | 'clock'>;

/** Tests, resends and recovery: make deliveries due, which the claim loop of the delivery service then attempts. */
export function deliveryRoutes({ store, pubsub, clock }: DeliveriesDeps): Route[] {
  const rows = store.collection(deliveries);

  /** The body: in the row until it is delivered, then only in the event. @throws Problem 410 if that was removed */
  async function payloadOf({ id, payload, emitter_id, event_id, event_name }: DeliveryRow): Promise<string> {
    if (payload !== '') return payload;
    if (emitter_id === null || event_id === null) return TEST_PAYLOAD;
    const found = await payloadOfEvent(store, emitter_id, event_name, event_id);
    if (found !== undefined) return found;
    throw gone('event_gone', `The delivery ${id} was delivered, and its event does not exist any more.`);
  }

  return [
    route(testWebhook, async ({ principal, params }) => {
      const webhook = await requireOwnWebhook(store, principal, params.id);
      requireActive(webhook);
      const now = clock.now();
      const row = await insertNew(rows, () => ({
        id: newId('dlv'),
        webhook_id: webhook.id,
        owner_id: webhook.owner_id,
        emitter_id: null,
        event_id: null,
        event_name: '',
        hop: 0,
        status: 'pending' as const,
        attempts: 0,
        due_at: now,
        failed_at_ms: null,
        log: '',
        created_at: Math.floor(now / 1000),
        payload: TEST_PAYLOAD,
      }));
      pubsub.publish(DELIVERIES_DUE);
      return presentDelivery(row);
    }),

    route(listWebhookDeliveries, async ({ principal, params, input }) => {
      const webhook = await requireOwnWebhook(store, principal, params.id);
      const page = await findDeliveries(store, webhook.id, input);
      if (input.expand !== 'attempt_log')
        return { ...page, data: page.data.map((row) => presentDelivery(row)) };
      const data = [];
      // One at a time: each is read with its payload.
      for (const row of page.data) {
        const log = (await rows.get(row.id))?.log ?? '';
        data.push(presentDelivery({ ...row, log }, true));
      }
      return { ...page, data };
    }),

    route(getDelivery, ({ principal, params }) =>
      withOwnDelivery(store, principal, params.id, (delivery) => presentDelivery(delivery, true)),
    ),

    route(resendDelivery, ({ principal, params }) =>
      withOwnDelivery(store, principal, params.id, async (delivery) => {
        requireActive(await requireOwnWebhook(store, principal, delivery.webhook_id));
        if (!(await createReachesEvent(store, principal)(delivery)))
          throw notFound('event', delivery.event_id ?? undefined);
        const due = { status: 'pending' as const, due_at: clock.now(), failed_at_ms: null };
        const payload = await payloadOf(delivery);
        await rows.patch(delivery.id, { ...due, payload });
        pubsub.publish(DELIVERIES_DUE);
        const row = await rows.get(delivery.id);
        if (!row) throw notFound('delivery', delivery.id);
        return presentDelivery(row);
      }),
    ),

    route(recoverWebhook, async ({ principal, params, input }) => {
      const webhook = await requireOwnWebhook(store, principal, params.id);
      const since = parseTime('since', input.since);
      requireActive(webhook);
      const reachesEvent = createReachesEvent(store, principal);
      // Deliveries that fail meanwhile are not resent.
      const now = clock.now();
      let count = 0;
      /** The next page begins at this time, with rows of the last one that stay. */
      let from = since;
      let staying = 0;
      for (;;) {
        const limit = BATCH_SIZE + staying;
        const failed_at_ms = { gte: from, lte: now };
        const page = await rows.list({
          where: { webhook_id: webhook.id, failed_at_ms },
          orderBy: 'failed_at_ms',
          order: 'asc',
          limit,
          texts: false,
        });
        const reached = await Promise.all(page.map(reachesEvent));
        const ids = page.filter((_row, n) => reached[n]).map(({ id }) => id);
        const recovered = await rows.claim(
          { where: { id: { in: ids }, failed_at_ms }, texts: false },
          { status: 'pending', attempts: 0, due_at: now, failed_at_ms: null },
        );
        count += recovered.length;
        if (page.length < limit) break;
        from = page.at(-1)!.failed_at_ms!;
        staying = page.filter((row, n) => row.failed_at_ms === from && !reached[n]).length;
      }
      if (count > 0) pubsub.publish(DELIVERIES_DUE);
      return { count };
    }),
  ];
}
