import type { Principal } from '@wellspring/contract/principal';
import { notFound } from '@wellspring/core/problem';
import { canAccess } from '@wellspring/http/principal';
import type { Deps } from '@wellspring/runtime/deps';
import { type SourceRow, sources } from '@wellspring/store/collections/sources';

/** The source, if the principal may access it. @throws Problem 404, also for other tenants' sources */
export async function findSource(
  { store }: Pick<Deps, 'store'>,
  principal: Principal,
  id: string,
): Promise<SourceRow> {
  const source = await store.collection(sources).get(id);
  if (!source || source.status === 'deploying' || !canAccess(principal, source.owner_id))
    throw notFound('source', id);
  return source;
}
