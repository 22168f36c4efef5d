import { getSource, listMySources, listOrgSources } from '@wellspring/contract/endpoints/sources';
import { type RequestContext, type Route, route } from '@wellspring/http/bind';
import { listLarge, type PageInput } from '@wellspring/http/paging';
import { checkMember, ownerFor } from '@wellspring/http/principal';
import { sources } from '@wellspring/store/collections/sources';
import type { SourcesContext } from './context.ts';
import { findSource } from './find-source.ts';

export function readSourceRoutes({ deps, presentSource }: SourcesContext): Route[] {
  const rows = deps.store.collection(sources);
  const list = (owner_id: string, input: PageInput, request: Pick<RequestContext, 'hold' | 'signal'>) =>
    listLarge(rows, { owner_id, status: { in: ['live', 'updating'] } }, input, {
      ...request,
      read: presentSource,
      bytesOf: ({ configured_props }) => JSON.stringify(configured_props).length,
    });
  return [
    route(getSource, async ({ params, principal }) =>
      presentSource(await findSource(deps, principal, params.id)),
    ),
    route(listMySources, async ({ input, principal, hold, signal }) =>
      list(ownerFor(principal, input.org_id).owner_id, input, { hold, signal }),
    ),
    route(listOrgSources, ({ params, input, principal, hold, signal }) => {
      checkMember(principal, params.org_id);
      return list(params.org_id, input, { hold, signal });
    }),
  ];
}
