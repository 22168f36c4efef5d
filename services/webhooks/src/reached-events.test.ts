import { beforeEach, expect, test } from '@jest/globals';
import { eventSortKey } from '@wellspring/core/event-id';
import { newId } from '@wellspring/core/ids';
import type { Service } from '@wellspring/runtime/service';
import { events } from '@wellspring/store/collections/events';
import { sources } from '@wellspring/store/collections/sources';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { members } from '@wellspring/store/collections/users';
import { type DeliveryRow, deliveries, webhooks } from '@wellspring/store/collections/webhooks';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import {
  deliveryRow,
  eventRow,
  OWNER,
  sourceRow,
  subscriptionRow,
  webhookRow,
} from '@wellspring/testing/rows';
import { ALICE, BOB, callApi, ORG, useHarness, user } from '@wellspring/testing/service-harness';
import { createWebhooksService } from './service.ts';

const KEY = eventSortKey({ ms: 1_700_000_000_000, n: 0 });
/** ALICE after she left the organization. */
const GONE = user(OWNER);

const t = useHarness(createFakeClock);
let service: Service;
beforeEach(() => {
  service = createWebhooksService(t);
});

/** A webhook and a source with an event. */
async function setUp(ownerOfWebhook: string, ownerOfSource: string) {
  const [webhook, source] = [
    webhookRow({ owner_id: ownerOfWebhook }),
    sourceRow({ owner_id: ownerOfSource }),
  ];
  await t.store.collection(webhooks).insert(webhook);
  await t.store.collection(sources).insert(source);
  await t.store.collection(events).insert(eventRow(source.id, KEY));
  const deliver = async (fields: Partial<DeliveryRow> = {}) => {
    const ends = { webhook_id: webhook.id, owner_id: ownerOfWebhook, emitter_id: source.id };
    const row = deliveryRow({ id: newId('dlv'), ...ends, ...fields });
    await t.store.collection(deliveries).insert(row);
    return row.id;
  };
  return { webhook, source, deliver };
}
const failed = () => ({ status: 'failed' as const, failed_at_ms: t.clock.now() });
const resend = async (id: string, as = ALICE) =>
  (await callApi(service, 'POST', `/deliveries/${id}/resend`, { as })).status;
const recover = async (id: string, as = ALICE) =>
  (await callApi(service, 'POST', `/webhooks/${id}/recover?since=0`, { as })).json.data.count as number;

test('who left an organization resends and recovers no delivery of its events', async () => {
  const { webhook, source, deliver } = await setUp(OWNER, ORG);
  const done = await deliver({ status: 'delivered', payload: '' });
  // More than one page; with one of her own at the end.
  for (let n = 0; n < 501; n++) await deliver(failed());
  const own = sourceRow();
  await t.store.collection(sources).insert(own);
  const last = await deliver(failed());
  await deliver({ ...failed(), emitter_id: own.id });
  expect([await resend(done, GONE), await resend(last, GONE)]).toEqual([404, 404]);
  expect(await recover(webhook.id, GONE)).toBe(1);
  expect([await resend(done), await resend(last)]).toEqual([202, 202]);
  expect(await recover(webhook.id)).toBe(501);
  // Nobody reaches the events of a source that is gone, but the delivery has its payload.
  const kept = await deliver(failed());
  await t.store.collection(sources).remove(source.id);
  expect(await resend(kept, GONE)).toBe(202);
});

test('members of an organization resend what a subscription of its webhook reaches through its creator', async () => {
  const { webhook, source, deliver } = await setUp(ORG, BOB.user_id);
  const id = await deliver(failed());
  expect(await resend(id)).toBe(404);
  const ends = { emitter_id: source.id, listener_id: webhook.id };
  await t.store
    .collection(subscriptions)
    .insert(subscriptionRow({ ...ends, owner_id: ORG, user_id: BOB.user_id }));
  expect(await resend(id)).toBe(404);
  await t.store
    .collection(members)
    .insert({ id: `${ORG}/${BOB.user_id}`, org_id: ORG, user_id: BOB.user_id });
  expect(await resend(id)).toBe(202);
});
