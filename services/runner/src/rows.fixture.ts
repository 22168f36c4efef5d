import type { PrepareCall } from '@wellspring/contract/calls';
import { newId } from '@wellspring/core/ids';
import { bundles } from '@wellspring/store/collections/components';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import type { Store } from '@wellspring/store/port';
import { subscriptionRow } from '@wellspring/testing/rows';

/** Adds a listener to these channels. */
export async function subscribe({ store }: { store: Store }, emitter_id: string, ...channels: string[]) {
  const rows = channels.map((event_name) =>
    subscriptionRow({ emitter_id, listener_id: newId('wh'), event_name }),
  );
  await store.collection(subscriptions).insertMany(rows);
}

/** Stores prepared code. */
export async function insertBundle(
  { store }: { store: Store },
  { bundle_id, bundle }: Pick<PrepareCall['answer'], 'bundle_id' | 'bundle'>,
) {
  const row = { id: bundle_id, content: JSON.stringify(bundle), unused_since: null };
  await store.collection(bundles).insertMany([row]);
}
