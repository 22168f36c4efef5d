import type { Store } from '../port.ts';
import { type OrgRow, orgs, type UserRow, users } from './users.ts';

/** The collection of the user or organization with this id. */
export const ownerRows = (store: Store, id: string) =>
  id.startsWith('o_') ? store.collection(orgs) : store.collection(users);

/**
 * The user or organization with this id; undefined if it is unknown or being deleted. Its deletion sets `deleting` before
 * it lists what to remove, so a row that is not in the list was inserted after that: who inserts it, then calls this,
 * and removes the row if there is no owner, leaves nothing.
 */
export async function findOwner(store: Store, id: string): Promise<UserRow | OrgRow | undefined> {
  const row: UserRow | OrgRow | undefined = await ownerRows(store, id).get(id);
  return row?.deleting ? undefined : row;
}
