import type { Store } from '../port.ts';
import { autoSubscriptions, subscriptions } from './subscriptions.ts';
import { deliveries, webhooks } from './webhooks.ts';

const BATCH_SIZE = 500;

/**
 * Deletes a webhook, then its subscriptions and deliveries. Rows left by an interruption are never used; a repeated call
 * removes them.
 * @returns false if the webhook did not exist
 */
export async function deleteWebhookRows(store: Store, webhookId: string): Promise<boolean> {
  const existed = await store.collection(webhooks).remove(webhookId);
  await store.collection(subscriptions).removeWhere({ listener_id: webhookId });
  await store.collection(autoSubscriptions).removeWhere({ listener_id: webhookId });
  const rows = store.collection(deliveries);
  while ((await rows.removeWhere({ webhook_id: webhookId }, BATCH_SIZE)) === BATCH_SIZE);
  return existed;
}
