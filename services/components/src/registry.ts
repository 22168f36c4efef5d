import { isSemver, newestOf } from '@wellspring/core/versions';
import type { Deps } from '@wellspring/runtime/deps';
import { type ComponentRow, components, REGISTRY, registry } from '@wellspring/store/collections/components';

/** `key` or `key@version`; keys hold no `@`. */
export function splitKey(text: string): { key: string; version: string | undefined } {
  const at = text.indexOf('@');
  return at < 0 ? { key: text, version: undefined } : { key: text.slice(0, at), version: text.slice(at + 1) };
}

/** The published component of a key, of `key@version` or of the newest version in `key@range`. */
export async function findInRegistry(
  { store }: Pick<Deps, 'store'>,
  text: string,
): Promise<ComponentRow | undefined> {
  const rows = store.collection(registry);
  const { key, version } = splitKey(text);
  const row =
    version !== undefined && isSemver(version)
      ? await rows.get(text)
      : newestOf(await rows.list({ where: { key } }), version);
  return row && store.collection(components).get(row.component_id);
}

/** Whether the component is a version in the registry. */
export async function isPublished(
  { store }: Pick<Deps, 'store'>,
  { id, owner_id, definition: { key, version } }: ComponentRow,
): Promise<boolean> {
  if (owner_id !== REGISTRY) return false;
  return (await store.collection(registry).get(`${key}@${version}`))?.component_id === id;
}
