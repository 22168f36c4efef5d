import { CALLS } from '@wellspring/contract/calls';
import { changedTopic } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import { accounts } from '@wellspring/store/collections/accounts';
import { components, publishedKeys } from '@wellspring/store/collections/components';
import { deleteSourceRows } from '@wellspring/store/collections/delete-source';
import { deleteWebhookRows } from '@wellspring/store/collections/delete-webhook';
import { deleteWorkflowRows } from '@wellspring/store/collections/delete-workflow';
import { sources } from '@wellspring/store/collections/sources';
import { autoSubscriptions, subscriptions } from '@wellspring/store/collections/subscriptions';
import { apiKeys } from '@wellspring/store/collections/users';
import { webhooks } from '@wellspring/store/collections/webhooks';
import { workflows } from '@wellspring/store/collections/workflows';

export type OwnerDeps = Pick<Deps, 'store' | 'clock' | 'pubsub' | 'queue' | 'call' | 'log'>;

/**
 * Deletes all resources of a user or organization. Keys are deleted first, so that nothing is created meanwhile.
 * Deactivate hooks do not run.
 */
export async function deleteOwner(deps: OwnerDeps, ownerId: string): Promise<void> {
  const { store, pubsub, queue, call, log } = deps;
  for (const key of await store.collection(apiKeys).list({ where: { user_id: ownerId } })) {
    await store.collection(apiKeys).remove(key.id);
    pubsub.publish(changedTopic(key.id));
  }
  await store.collection(subscriptions).removeWhere({ owner_id: ownerId });
  await store.collection(autoSubscriptions).removeWhere({ owner_id: ownerId });
  const remove = async (id: string, deleteRows: typeof deleteSourceRows) => {
    await deleteRows(store, id);
    await queue.purgeKey('runs', id);
    pubsub.publish(changedTopic(id));
    await call
      .request(CALLS.forget, { source_id: id }, { key: id, deadlineMs: 5000 })
      .catch((error: unknown) => log.warn({ source_id: id, error: String(error) }, 'source.forget_failed'));
    // A run in progress may have committed meanwhile.
    await deleteRows(store, id);
  };
  for (const { id } of await store.collection(workflows).list({ where: { owner_id: ownerId } })) {
    await remove(id, deleteWorkflowRows);
  }
  for (const { id } of await store.collection(sources).list({ where: { owner_id: ownerId } })) {
    await remove(id, deleteSourceRows);
  }
  for (const { id } of await store.collection(webhooks).list({ where: { owner_id: ownerId } })) {
    await deleteWebhookRows(store, id);
    pubsub.publish(changedTopic(id));
  }
  await store.collection(accounts).removeWhere({ owner_id: ownerId });
  await store.collection(publishedKeys).removeWhere({ owner_id: ownerId });
  await store.collection(components).removeWhere({ owner_id: ownerId });
}
