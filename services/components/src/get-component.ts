import { getComponent, getRegistryComponent } from '@wellspring/contract/endpoints/components';
import { notFound } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { ownerFor } from '@wellspring/http/principal';
import type { ComponentsContext } from './context.ts';
import { findById, findByKey } from './find-component.ts';
import { presentComponent } from './present.ts';
import { findInRegistry } from './registry.ts';

export const getComponentRoutes = ({ deps }: ComponentsContext): Route[] => [
  // An id needs no org_id; a key is looked up among the components of the given organization, or else of the caller.
  route(getComponent, async ({ params, input, principal }) => {
    if (principal.kind !== 'user') throw notFound('component', params.id);
    const { owner_id } = ownerFor(principal, input.org_id);
    const component =
      (await findById(deps, params.id, [principal.user_id, ...principal.org_ids])) ??
      (await findByKey(deps, params.id, owner_id));
    if (!component) throw notFound('component', params.id);
    return presentComponent(component);
  }),
  route(getRegistryComponent, async ({ params }) => {
    const component = await findInRegistry(deps, params.key);
    if (!component) throw notFound('component', params.key);
    return presentComponent(component);
  }),
];
