import type { Store } from '../port.ts';
import { removeAll } from '../remove-all.ts';
import { autoSubscriptions, subscriptions } from './subscriptions.ts';
import { deliveries, webhooks } from './webhooks.ts';

/**
 * Deletes a webhook with its deliveries and subscriptions. The first write stops deliveries and new subscriptions to it;
 * its row is removed last, so that a repeated call completes an interrupted deletion. Rows of attempts in progress are
 * removed when they are due, or by their retention.
 * @returns false if the webhook did not exist
 */
export async function deleteWebhookRows(store: Store, webhookId: string): Promise<boolean> {
  const isKnown = await store.collection(webhooks).patch(webhookId, { active: false, deleting: true });
  if (!isKnown) return false;
  await removeAll(store.collection(deliveries), { webhook_id: webhookId });
  // First: a new source gets subscriptions from them.
  await store.collection(autoSubscriptions).removeWhere({ listener_id: webhookId });
  await store.collection(subscriptions).removeWhere({ listener_id: webhookId });
  return store.collection(webhooks).remove(webhookId);
}
