import { getSource, listMySources, listOrgSources } from '@wellspring/contract/endpoints/sources';
import { type Route, route } from '@wellspring/http/bind';
import { listPage, type PageInput } from '@wellspring/http/paging';
import { checkMember, ownerFor } from '@wellspring/http/principal';
import { sources } from '@wellspring/store/collections/sources';
import type { SourcesContext } from './context.ts';
import { findSource } from './find-source.ts';

export function readSourceRoutes({ deps, presentSource }: SourcesContext): Route[] {
  const rows = deps.store.collection(sources);
  const list = async (ownerId: string, input: PageInput) => {
    const page = await listPage(rows, { owner_id: ownerId, status: { in: ['live', 'updating'] } }, input);
    return { ...page, data: await Promise.all(page.data.map(presentSource)) };
  };
  return [
    route(getSource, async ({ params, principal }) =>
      presentSource(await findSource(deps, principal, params.id)),
    ),
    route(listMySources, async ({ input, principal }) =>
      list(ownerFor(principal, input.org_id).owner_id, input),
    ),
    route(listOrgSources, ({ params, input, principal }) => {
      checkMember(principal, params.org_id);
      return list(params.org_id, input);
    }),
  ];
}
