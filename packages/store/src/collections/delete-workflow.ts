import type { Store } from '../port.ts';
import { removeAll } from '../remove-all.ts';
import { DELETED_OWNER, type RowsToKeep, removeEmitterRows, removeSubscriptionsOf } from './delete-source.ts';
import { deployments } from './sources.ts';
import { deliveries } from './webhooks.ts';
import { workflowDeployments, workflows } from './workflows.ts';

/**
 * Removes a workflow and its rows, but not the source that it made. Requests that were already made stay until their
 * retention ends: a repeated fan-out must not repeat them. The first write hides and stops the workflow; its row is
 * removed last, with status `deleting`, so that an interrupted deletion is found and repeated.
 */
export async function deleteWorkflowRows(
  store: Store,
  workflowId: string,
  { keepOwn = false }: RowsToKeep = {},
): Promise<void> {
  const rows = store.collection(workflows);
  await rows.patch(workflowId, { status: 'deleting', transition: null, owner_id: DELETED_OWNER });
  await removeSubscriptionsOf(store, workflowId);
  await removeEmitterRows(store, workflowId);
  await removeAll(store.collection(deliveries), { webhook_id: workflowId, due_at: { gt: 0 } });
  await store.collection(deployments).removeWhere({ source_id: workflowId });
  await store.collection(workflowDeployments).removeWhere({ workflow_id: workflowId });
  if (!keepOwn) await rows.remove(workflowId);
}
