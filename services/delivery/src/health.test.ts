import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { changedTopic } from '@wellspring/pubsub/port';
import { sources } from '@wellspring/store/collections/sources';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { webhooks } from '@wellspring/store/collections/webhooks';
import type { Store } from '@wellspring/store/port';
import { createFakeClock, type FakeClock } from '@wellspring/testing/fake-clock';
import { listLog } from '@wellspring/testing/list-log';
import { sourceRow, subscriptionRow, webhookRow } from '@wellspring/testing/rows';
import { openPorts, type Ports } from '@wellspring/testing/service-harness';
import { createWebhookHealth, FAILING_LIMIT_MS } from './health.ts';

let clock: FakeClock;
let ports: Ports;
beforeEach(() => {
  clock = createFakeClock();
  ports = openPorts({ clock });
});
afterEach(() => ports.close());

test('a webhook that succeeds while it is being disabled stays active, and nothing tells of its end', async () => {
  const { store, pubsub } = ports;
  const { log, lines } = listLog();
  const queue: Ports['queue'] = {
    ...ports.queue,
    // The records for its emitters, which precede its end.
    publishMany: () => health.succeeded(webhook, { failures: 0, tried_at: clock.now() }),
  };
  const health = createWebhookHealth({ store, pubsub, queue, clock, log });
  const webhook = webhookRow({ failing_since: clock.now() - FAILING_LIMIT_MS });
  const source = sourceRow({});
  await store.collection(webhooks).insert(webhook);
  await store.collection(sources).insert(source);
  await store
    .collection(subscriptions)
    .insert(subscriptionRow({ emitter_id: source.id, listener_id: webhook.id }));
  let changes = 0;
  pubsub.subscribe(changedTopic(webhook.id), () => {
    changes += 1;
  });

  await health.failed(webhook, { failures: 100, tried_at: clock.now() });
  expect(await store.collection(webhooks).get(webhook.id)).toMatchObject({
    active: true,
    failing_since: null,
  });
  await pubsub.ping();
  expect([changes, lines]).toEqual([0, []]);
});

test('a success that another process stores while a failure is stored is not lost', async () => {
  const { store, queue, pubsub } = ports;
  const webhook = webhookRow({ failing_since: clock.now() - FAILING_LIMIT_MS });
  await store.collection(webhooks).insert(webhook);
  const other = createWebhookHealth({ store, queue, pubsub, clock, log: listLog().log });
  let reads = 0;
  const racing: Store = {
    ...store,
    collection: (definition) => ({
      ...store.collection(definition),
      async get(id) {
        const row = await store.collection(definition).get(id);
        reads += 1;
        if (reads === 1) await other.succeeded(webhook, { failures: 0, tried_at: clock.now() });
        return row;
      },
    }),
  };
  const health = createWebhookHealth({ store: racing, queue, pubsub, clock, log: listLog().log });

  await health.failed(webhook, { failures: 100, tried_at: clock.now() });
  expect(await store.collection(webhooks).get(webhook.id)).toMatchObject({
    active: true,
    failing_since: null,
  });
});
