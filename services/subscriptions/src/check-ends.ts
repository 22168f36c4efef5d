import { LIMITS } from '@wellspring/contract/limits';
import type { Principal } from '@wellspring/contract/principal';
import { isGlob } from '@wellspring/core/glob';
import { isId } from '@wellspring/core/ids';
import { invalidParameter, notFound, Problem } from '@wellspring/core/problem';
import { canAccess } from '@wellspring/http/principal';
import { findEmitter } from '@wellspring/store/collections/emitters';
import { webhooks } from '@wellspring/store/collections/webhooks';
import type { Collection, Row, Store } from '@wellspring/store/port';

/**
 * Checks that the principal may listen to this emitter: a source, a workflow, an owner (the user or an organization), or a
 * glob, which matches only what the subscriber may read.
 * @throws Problem 400 for a malformed glob or another kind of id, 404 for unknown emitters and those of other tenants
 */
export async function checkEmitter(store: Store, principal: Principal, id: string): Promise<void> {
  if (isGlob(id)) return;
  if (id.includes('*')) {
    throw invalidParameter('emitter_id', 'The only patterns for emitter_id are dc_* and p_*.');
  }
  if (id.startsWith('u_') || id.startsWith('o_')) {
    if (!canAccess(principal, id)) throw notFound('emitter', id);
    return;
  }
  if (!id.startsWith('dc_') && !id.startsWith('p_')) {
    throw invalidParameter(
      'emitter_id',
      'emitter_id must be the id of a source, workflow, user or organization, or a pattern.',
    );
  }
  if (!(await mayUse(store, principal, id))) throw notFound('emitter', id);
}

/**
 * Checks that the principal may send to this listener: a source, a workflow or a webhook.
 * @throws Problem 400 for another kind of id, 404 for unknown listeners and those of other tenants
 */
export async function checkListener(store: Store, principal: Principal, id: string): Promise<void> {
  if (id.startsWith('wh_') && !id.includes('*')) {
    const webhook = await store.collection(webhooks).get(id);
    if (!webhook || webhook.deleting || !canAccess(principal, webhook.owner_id))
      throw notFound('listener', id);
    return;
  }
  if (!/^(?:dc|p)_[^*]*$/.test(id)) {
    throw invalidParameter('listener_id', 'listener_id must be the id of a source, workflow or webhook.');
  }
  if (!(await mayUse(store, principal, id))) throw notFound('listener', id);
}

/**
 * Inserts a row between the ends: the deletion of one does not remove what is inserted later.
 * @param check of the ends, before and after the insert
 * @throws Problem of the check; the row is removed then
 */
export async function insertBetween<T extends Row>(
  rows: Collection<T>,
  check: () => Promise<void>,
  insert: () => Promise<T>,
): Promise<T> {
  await check();
  const row = await insert();
  try {
    await check();
  } catch (error) {
    if (error instanceof Problem) await rows.remove(row.id);
    throw error;
  }
  return row;
}

async function mayUse(store: Store, principal: Principal, id: string): Promise<boolean> {
  if (!isId('dc', id) && !isId('p', id)) return false;
  // A source that is still deploying counts: its code may subscribe it.
  const emitter = await findEmitter(store, id);
  return emitter !== undefined && canAccess(principal, emitter.owner_id);
}

/** The channel, '' by default. @throws Problem 400 for more than 256 bytes */
export function checkEventName(name: string | undefined): string {
  if (name === undefined) return '';
  if (Buffer.byteLength(name) > LIMITS.eventName) {
    throw invalidParameter('event_name', `event_name has more than ${LIMITS.eventName} bytes.`);
  }
  return name;
}
