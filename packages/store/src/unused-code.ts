import { setImmediate as nextTurn } from 'node:timers/promises';
import { bundles, type ComponentRow, components, REGISTRY, registry } from './collections/components.ts';
import { deployments } from './collections/sources.ts';
import type { Store } from './port.ts';

const DAY_MS = 24 * 3_600_000;
/** Rows per page. */
const PAGE_SIZE = 200;

/**
 * Removes components of the registry that are unpublished and that no deployment was made from.
 * @returns their number
 */
export async function pruneUnpublished(store: Store, signal?: AbortSignal): Promise<number> {
  const rows = store.collection(components);
  let removed = 0;
  for (let after = ''; !signal?.aborted; await nextTurn()) {
    const page = await rows.list({
      where: { owner_id: REGISTRY, content_hash: { gt: after } },
      orderBy: 'content_hash',
      order: 'asc',
      limit: PAGE_SIZE,
      texts: false,
    });
    if (page.length === 0) break;
    after = page.at(-1)!.content_hash;
    const versions = await store.collection(registry).list({ where: { id: { in: page.map(versionOf) } } });
    const published = new Set(versions.map(({ component_id }) => component_id));
    for (const { id } of page) if (!published.has(id) && (await removeUnpublished(store, id))) removed += 1;
  }
  return removed;
}

const versionOf = ({ definition: { key, version } }: ComponentRow) => `${key}@${version}`;

/** Whether it was removed. One that is published at the same moment stays. */
async function removeUnpublished(store: Store, id: string): Promise<boolean> {
  const rows = store.collection(components);
  if ((await store.collection(deployments).count({ component_id: id }, 1)) > 0) return false;
  const row = await rows.get(id);
  if (!row) return false;
  await rows.remove(id);
  if ((await store.collection(registry).get(versionOf(row)))?.component_id !== id) return true;
  await rows.insertMany([row]);
  return false;
}

/**
 * Marks bundles that neither a component nor a deployment uses, and removes those marked for a day: by then, every request
 * that read their component before its removal has ended.
 * @param now epoch ms
 * @returns the number of removed bundles
 */
export async function pruneBundles(store: Store, now: number, signal?: AbortSignal): Promise<number> {
  const rows = store.collection(bundles);
  const isUsed = async (bundle_id: string) =>
    (await store.collection(components).count({ bundle_id }, 1)) > 0 ||
    (await store.collection(deployments).count({ bundle_id }, 1)) > 0;
  let removed = 0;
  for (let after = ''; !signal?.aborted; await nextTurn()) {
    const page = await rows.list({
      where: { id: { gt: after } },
      order: 'asc',
      limit: PAGE_SIZE,
      texts: false,
    });
    if (page.length === 0) break;
    after = page.at(-1)!.id;
    for (const { id, unused_since } of page) {
      if (await isUsed(id)) {
        if (unused_since !== null) await rows.patch(id, { unused_since: null });
      } else if (unused_since === null) await rows.patch(id, { unused_since: now });
      else removed += await rows.removeWhere({ id, unused_since: { lte: now - DAY_MS } });
    }
  }
  return removed;
}
