import type { Principal } from '@wellspring/contract/principal';
import { notFound } from '@wellspring/core/problem';
import { canAccess } from '@wellspring/http/principal';
import { findEmitter, isWorkflowId } from '@wellspring/store/collections/emitters';
import { apiKeys, members } from '@wellspring/store/collections/users';
import type { Store } from '@wellspring/store/port';

/** @throws Problem 404 unless it is a source that the principal may read */
export const assertReadableSource = (store: Store, principal: Principal, id: string): Promise<void> =>
  assertReadable(store, principal, id, 'source');

/** @throws Problem 404 unless it is a workflow that the principal may read */
export const assertReadableWorkflow = (store: Store, principal: Principal, id: string): Promise<void> =>
  assertReadable(store, principal, id, 'workflow');

/** @throws Problem 404 unless it is a source or workflow that the principal may read */
export const assertReadableEmitter = (store: Store, principal: Principal, id: string): Promise<void> =>
  assertReadable(store, principal, id, isWorkflowId(id) ? 'workflow' : 'source');

async function assertReadable(
  store: Store,
  principal: Principal,
  id: string,
  kind: 'source' | 'workflow',
): Promise<void> {
  const emitter = isWorkflowId(id) === (kind === 'workflow') ? await findEmitter(store, id) : undefined;
  if (!emitter || !canAccess(principal, emitter.owner_id)) throw notFound(kind, id);
}

/** Whether a stream may continue: emitter and key exist, and the user has access. Read from the store. */
export async function stillReadable(store: Store, principal: Principal, emitterId: string): Promise<boolean> {
  const emitter = await findEmitter(store, emitterId);
  if (!emitter) return false;
  if (principal.kind === 'operator') return true;
  const { user_id, key_id } = principal;
  if (!(await store.collection(apiKeys).get(key_id))) return false;
  if (emitter.owner_id === user_id) return true;
  return (await store.collection(members).get(`${emitter.owner_id}/${user_id}`)) !== undefined;
}
