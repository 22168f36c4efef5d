import { isId } from '@wellspring/core/ids';
import { newestOf } from '@wellspring/core/versions';
import type { Deps } from '@wellspring/runtime/deps';
import {
  type ComponentRow,
  components,
  type PublishedKeyRow,
  publishedKeys,
} from '@wellspring/store/collections/components';
import { findInRegistry, isPublished, splitKey } from './registry.ts';

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

/** The newest version of the owner's that is in the range of `key@range`. */
async function findOwnInRange(
  { store }: FindDeps,
  text: string,
  ownerId: string,
): Promise<PublishedKeyRow | undefined> {
  const { key, version: range } = splitKey(text);
  if (range === undefined) return undefined;
  const start = `${ownerId}/${key}@`;
  // `A` follows `@`.
  const rows = await store
    .collection(publishedKeys)
    .list({ where: { id: { gt: start, lt: `${ownerId}/${key}A` } } });
  return newestOf(
    rows.map((row) => ({ ...row, version: row.id.slice(start.length) })),
    range,
  );
}

/** A component by `key`, `key@version` or `key@range`: of the owner, or else of the registry. */
export async function findByKey(
  deps: FindDeps,
  key: string,
  ownerId: string,
): Promise<ComponentRow | undefined> {
  const own =
    (await deps.store.collection(publishedKeys).get(`${ownerId}/${key}`)) ??
    (await findOwnInRange(deps, key, ownerId));
  return (
    (own && (await deps.store.collection(components).get(own.component_id))) ??
    (await findInRegistry(deps, key))
  );
}
