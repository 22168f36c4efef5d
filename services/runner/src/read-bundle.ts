import type { Bundle } from '@wellspring/contract/definition';
import { bundles } from '@wellspring/store/collections/components';
import { unpackText } from '@wellspring/store/packed-text';
import type { Store } from '@wellspring/store/port';

/** @throws Error if it is missing */
export async function readBundle(store: Store, id: string): Promise<Bundle> {
  const row = await store.collection(bundles).get(id);
  if (!row) throw new Error(`The bundle ${id} is missing`);
  return JSON.parse(await unpackText(row.content)) as Bundle;
}
