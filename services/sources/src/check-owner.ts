import { notFound } from '@wellspring/core/problem';
import { findOwner } from '@wellspring/store/collections/owners';
import type { Store } from '@wellspring/store/port';

/** @throws Problem 404: the user or organization is unknown or being deleted */
export async function checkOwner(store: Store, ownerId: string): Promise<void> {
  if (!(await findOwner(store, ownerId))) throw notFound('user or organization', ownerId);
}
