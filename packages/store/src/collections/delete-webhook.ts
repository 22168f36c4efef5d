import type { Store } from '../port.ts';
import { autoSubscriptions, subscriptions } from './subscriptions.ts';
import { deliveries, webhooks } from './webhooks.ts';

const BATCH = 500;

/**
 * Deletes a webhook with its subscriptions and deliveries. The webhook goes first, so nobody sees it or sends to it
 * from then on; what an interruption leaves behind is never used, and a repeated call removes it.
 * @returns false when there was no such webhook any more
 */
export async function deleteWebhookRows(store: Store, webhookId: string): Promise<boolean> {
  const existed = await store.collection(webhooks).remove(webhookId);
  await store.collection(subscriptions).removeWhere({ listener_id: webhookId });
  await store.collection(autoSubscriptions).removeWhere({ listener_id: webhookId });
  const rows = store.collection(deliveries);
  while ((await rows.removeWhere({ webhook_id: webhookId }, BATCH)) === BATCH);
  return existed;
}
