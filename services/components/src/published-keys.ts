import { newestOf } from '@wellspring/core/versions';
import {
  type ComponentRow,
  components,
  type PublishedKeyRow,
  publishedKeys,
} from '@wellspring/store/collections/components';
import type { Store } from '@wellspring/store/port';
import { splitKey } from './registry.ts';

type Version = PublishedKeyRow & { version: string };

/** The published versions of a key of the owner. */
async function listVersions(store: Store, ownerId: string, key: string): Promise<Version[]> {
  const start = `${ownerId}/${key}@`;
  // All ids that start with `key@`: `A` is the next character after `@`.
  const where = { id: { gt: start, lt: `${ownerId}/${key}A` } };
  const rows = await store.collection(publishedKeys).list({ where });
  return rows.map((row) => ({ ...row, version: row.id.slice(start.length) }));
}

/** Ids of components sort by their age. */
const savedLast = (versions: readonly Version[]): Version | undefined =>
  versions.toSorted((a, b) => (a.component_id < b.component_id ? 1 : -1))[0];

/**
 * The component of the owner with this `key`, `key@version` or `key@range`. A key may name a deleted component: the process
 * that deleted it ended before it removed the keys, or two versions were deleted at the same time. Then the next best
 * version is found.
 */
export async function findOwn(
  store: Store,
  text: string,
  ownerId: string,
): Promise<ComponentRow | undefined> {
  const componentOf = (row: PublishedKeyRow) => store.collection(components).get(row.component_id);
  const exact = await store.collection(publishedKeys).get(`${ownerId}/${text}`);
  const component = exact && (await componentOf(exact));
  if (component) return component;
  const { key, version: range } = splitKey(text);
  let versions = await listVersions(store, ownerId, key);
  for (;;) {
    const best = range === undefined ? savedLast(versions) : newestOf(versions, range);
    const found = best && (await componentOf(best));
    if (!best || found) return found;
    versions = versions.filter((version) => version !== best);
  }
}

/**
 * Removes the published keys of a component, and points the key without a version to the remaining version that was saved
 * last.
 */
export async function removeKeys(store: Store, component: ComponentRow): Promise<void> {
  const { owner_id, definition } = component;
  const { key } = definition;
  const rows = store.collection(publishedKeys);
  await rows.removeWhere({ component_id: component.id });
  if (key === null || (await rows.get(`${owner_id}/${key}`))) return;
  const last = savedLast(await listVersions(store, owner_id, key));
  if (last)
    await rows.insertMany([{ id: `${owner_id}/${key}`, owner_id, key, component_id: last.component_id }]);
}
