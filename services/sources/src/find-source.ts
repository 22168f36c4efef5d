import type { Principal } from '@wellspring/contract/principal';
import { notFound } from '@wellspring/core/problem';
import { canAccess } from '@wellspring/http/principal';
import type { Deps } from '@wellspring/runtime/deps';
import { type SourceRow, sources } from '@wellspring/store/collections/sources';
import type { SourcesContext } from './context.ts';

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

/**
 * Changes a source, one change at a time. Access is checked before, too: how long others wait would tell that it exists.
 * @throws Problem 404, as `findSource`
 */
export async function changeSource<T>(
  { deps, oneAtATime }: Pick<SourcesContext, 'deps' | 'oneAtATime'>,
  principal: Principal,
  id: string,
  change: (source: SourceRow) => Promise<T>,
): Promise<T> {
  await findSource(deps, principal, id);
  return oneAtATime(id, async () => change(await findSource(deps, principal, id)));
}
