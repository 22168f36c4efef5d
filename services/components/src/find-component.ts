import { isId } from '@wellspring/core/ids';
import type { Deps } from '@wellspring/runtime/deps';
import { type ComponentRow, components } from '@wellspring/store/collections/components';
import { findOwn } from './published-keys.ts';
import { findInRegistry, isPublished } from './registry.ts';

type FindDeps = Pick<Deps, 'store'>;

/** A component by id, if one of the readers owns it or it is published. */
export async function findById(
  deps: FindDeps,
  id: string,
  readerIds: readonly string[],
): Promise<ComponentRow | undefined> {
  if (!isId('sc', id)) return undefined;
  const component = await deps.store.collection(components).get(id);
  if (!component) return undefined;
  return readerIds.includes(component.owner_id) || (await isPublished(deps, component))
    ? component
    : undefined;
}

/** A component by `key`, `key@version` or `key@range`: of the owner, or else of the registry. */
export async function findByKey(
  deps: FindDeps,
  key: string,
  ownerId: string,
): Promise<ComponentRow | undefined> {
  return (await findOwn(deps.store, key, ownerId)) ?? (await findInRegistry(deps, key));
}
