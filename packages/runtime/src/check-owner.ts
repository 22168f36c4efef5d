import { notFound } from '@wellspring/core/problem';
import { findOwner } from '@wellspring/store/collections/owners';
import type { Store } from '@wellspring/store/port';

/**
 * To be called after an insert: the deletion of the owner does not remove what is inserted later.
 * @param undo removes what was inserted
 * @throws Problem 404: the user or organization is unknown or being deleted
 */
export async function checkOwner(
  store: Store,
  ownerId: string,
  undo: () => Promise<unknown> = async () => {},
): Promise<void> {
  if (await findOwner(store, ownerId)) return;
  await undo();
  throw notFound('user or organization', ownerId);
}
