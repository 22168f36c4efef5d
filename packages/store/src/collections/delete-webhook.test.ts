import { expect, test } from '@jest/globals';
import { openDatabase } from '@wellspring/sqlite/database';
import { deliveryRow, subscriptionRow, webhookRow } from '@wellspring/testing/rows';
import { createEmbeddedStore } from '../embedded/store.ts';
import type { Store } from '../port.ts';
import { deleteWebhookRows } from './delete-webhook.ts';
import { autoSubscriptions, subscriptions } from './subscriptions.ts';
import { deliveries, webhooks } from './webhooks.ts';

const [GONE, OTHER] = ['wh_0000000001', 'wh_0000000002'];

async function fill(store: Store): Promise<void> {
  for (const id of [GONE, OTHER]) {
    await store.collection(webhooks).insert(webhookRow({ id }));
    await store
      .collection(subscriptions)
      .insert(subscriptionRow({ emitter_id: 'dc_0000000001', listener_id: id }));
    const auto = { id: `as_${id}`, owner_id: 'u_0000000001', user_id: 'u_0000000001', created_at: 0 };
    await store.collection(autoSubscriptions).insert({ ...auto, listener_id: id, event_name: '$errors' });
    await store.collection(deliveries).insert(deliveryRow({ id: `dlv_${id}`, webhook_id: id, due_at: 1 }));
  }
}

/** The store of a process that dies before its n-th write. */
function dyingStore(store: Store, n: number): Store {
  let left = n;
  const write =
    <A extends unknown[], R>(real: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      left -= 1;
      if (left <= 0) throw new Error('killed');
      return real(...args);
    };
  return {
    ...store,
    collection(definition) {
      const rows = store.collection(definition);
      const { patch, remove, removeWhere } = rows;
      return { ...rows, patch: write(patch), remove: write(remove), removeWhere: write(removeWhere) };
    },
  };
}

test('the deletion of a webhook that was cut off anywhere is completed when it is repeated', async () => {
  let deaths = 0;
  for (let isDeleted = false; !isDeleted; ) {
    const db = openDatabase(':memory:');
    const store = createEmbeddedStore(db);
    await fill(store);
    isDeleted = await deleteWebhookRows(dyingStore(store, deaths + 1), GONE).catch(() => false);
    if (!isDeleted) {
      deaths += 1;
      // Its owner, and the deletion of its owner, still find it.
      expect(await store.collection(webhooks).get(GONE)).toBeDefined();
      expect(await deleteWebhookRows(store, GONE)).toBe(true);
    }
    expect(await store.collection(webhooks).list()).toMatchObject([{ id: OTHER, active: true }]);
    for (const rows of [subscriptions, autoSubscriptions] as const)
      expect(await store.collection(rows as typeof subscriptions).list()).toMatchObject([
        { listener_id: OTHER },
      ]);
    expect(await store.collection(deliveries).list()).toMatchObject([{ webhook_id: OTHER }]);
    expect(await deleteWebhookRows(store, GONE)).toBe(false);
    await db.close();
  }
  expect(deaths).toBe(5);
});
