import { changedTopic } from '@wellspring/pubsub/port';
import type { Deps } from '@wellspring/runtime/deps';
import { removeEmitter } from '@wellspring/runtime/remove-emitter';
import { accounts } from '@wellspring/store/collections/accounts';
import { components, publishedKeys } from '@wellspring/store/collections/components';
import { deleteWebhookRows } from '@wellspring/store/collections/delete-webhook';
import { ownerRows } from '@wellspring/store/collections/owners';
import { sources } from '@wellspring/store/collections/sources';
import { autoSubscriptions, subscriptions } from '@wellspring/store/collections/subscriptions';
import { apiKeys } from '@wellspring/store/collections/users';
import { webhooks } from '@wellspring/store/collections/webhooks';
import { workflows } from '@wellspring/store/collections/workflows';

export type OwnerDeps = Pick<Deps, 'store' | 'clock' | 'pubsub' | 'call' | 'log'>;

/** Resources deleted at a time: each deletion waits for several writes. */
const MAX_DELETIONS = 8;

/** Removes a few at a time. Waits for the others after one has failed: none goes on after the answer. */
async function forEach<T>(rows: readonly T[], remove: (row: T) => Promise<void>): Promise<void> {
  const left = rows.values();
  const removeNext = async () => {
    for (const row of left) await remove(row);
  };
  const ended = await Promise.allSettled(Array.from({ length: MAX_DELETIONS }, removeNext));
  const failed = ended.find(({ status }) => status === 'rejected');
  if (failed) throw (failed as PromiseRejectedResult).reason;
}

/**
 * Deletes a user or organization with all resources. It is marked first: requests that are in progress then undo the keys,
 * sources, workflows, webhooks, accounts and components that they create (see `findOwner`). Its row is removed last, so that
 * a repeated call completes an interrupted one; sources and workflows whose deletion has begun are left to the service
 * `sources`. Deactivate hooks do not run.
 */
export async function deleteOwner(deps: OwnerDeps, ownerId: string): Promise<void> {
  const { store, pubsub } = deps;
  const owners = ownerRows(store, ownerId);
  await owners.patch(ownerId, { deleting: true });
  for (const key of await store.collection(apiKeys).list({ where: { user_id: ownerId } })) {
    await store.collection(apiKeys).remove(key.id);
    pubsub.publish(changedTopic(key.id));
  }
  await store.collection(subscriptions).removeWhere({ owner_id: ownerId });
  // Those of others to all that this owner emits.
  await store.collection(subscriptions).removeWhere({ emitter_id: ownerId });
  await store.collection(autoSubscriptions).removeWhere({ owner_id: ownerId });
  const where = { owner_id: ownerId };
  await forEach(await store.collection(workflows).list({ where }), ({ id }) => removeEmitter(deps, id));
  await forEach(await store.collection(sources).list({ where }), ({ id }) => removeEmitter(deps, id));
  await forEach(await store.collection(webhooks).list({ where }), async ({ id }) => {
    await deleteWebhookRows(store, id);
    pubsub.publish(changedTopic(id));
  });
  await store.collection(accounts).removeWhere({ owner_id: ownerId });
  await store.collection(publishedKeys).removeWhere({ owner_id: ownerId });
  await store.collection(components).removeWhere({ owner_id: ownerId });
  await owners.remove(ownerId);
}
