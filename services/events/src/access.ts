import type { Principal } from '@wellspring/contract/principal';
import { notFound } from '@wellspring/core/problem';
import { canRead } from '@wellspring/http/principal';
import { type SourceRow, sources } from '@wellspring/store/collections/sources';
import { apiKeys, members } from '@wellspring/store/collections/users';
import type { Store } from '@wellspring/store/port';

/** The source, if the principal may read it. @throws Problem 404, also for other tenants' sources */
export async function readableSource(store: Store, principal: Principal, id: string): Promise<SourceRow> {
  const row = await store.collection(sources).get(id);
  if (!row || !canRead(principal, row.owner_id)) throw notFound('source', id);
  return row;
}

/** Whether a stream may continue: source and key exist, and the user has access. Read from the store. */
export async function stillReadable(store: Store, principal: Principal, sourceId: string): Promise<boolean> {
  const source = await store.collection(sources).get(sourceId);
  if (!source) return false;
  if (principal.kind === 'operator') return true;
  const { user_id, key_id } = principal;
  if (!(await store.collection(apiKeys).get(key_id))) return false;
  if (source.owner_id === user_id) return true;
  return (await store.collection(members).get(`${source.owner_id}/${user_id}`)) !== undefined;
}
