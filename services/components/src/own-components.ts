import {
  deleteComponent,
  listMyComponents,
  listOrgComponents,
} from '@wellspring/contract/endpoints/components';
import type { Principal } from '@wellspring/contract/principal';
import { conflict, notFound } from '@wellspring/core/problem';
import { type RequestContext, type Route, route } from '@wellspring/http/bind';
import { listLarge, type PageInput } from '@wellspring/http/paging';
import { canAccess, checkMember, ownerFor } from '@wellspring/http/principal';
import { type ComponentRow, components } from '@wellspring/store/collections/components';
import { findEmitter, isWorkflowId } from '@wellspring/store/collections/emitters';
import { deployments } from '@wellspring/store/collections/sources';
import { members } from '@wellspring/store/collections/users';
import { charsOfPacked } from '@wellspring/store/packed-text';
import type { ListOptions } from '@wellspring/store/port';
import type { ComponentsContext } from './context.ts';
import { presentComponent } from './present.ts';
import { removeKeys } from './published-keys.ts';

/** Dependents that the message of an error names; its details list all. */
const MAX_NAMED = 5;
/** Deployments of a page: each may have several megabytes. */
const PAGE_SIZE = 16;
const LIST = new Intl.ListFormat('en');

/** Lists and deletes the components of users and organizations. */
export function ownComponentRoutes({ deps }: ComponentsContext): Route[] {
  const { store } = deps;
  const rows = store.collection(components);
  const readable = {
    count: rows.count,
    list: (options: ListOptions<ComponentRow>) => rows.list({ ...options, texts: false }),
  };
  const list = async (
    owner_id: string,
    input: PageInput,
    request: Pick<RequestContext, 'hold' | 'signal'>,
  ) => {
    const page = await listLarge(readable, { owner_id }, input, {
      ...request,
      read: ({ id }) => rows.get(id),
      bytesOf: ({ code, modules }) => charsOfPacked(code) + modules.length,
    });
    const data = [];
    for (const row of page.data) data.push(await presentComponent(row));
    return { ...page, data };
  };

  /**
   * Sources and workflows whose deployments were made from the component: ids of those that the caller may see, and the
   * number of those that belong to other members of the component's organization.
   */
  async function dependentsOf({ id, owner_id }: ComponentRow, principal: Principal) {
    const found = new Set<string>();
    const deployed = store.collection(deployments);
    for (let after = ''; ; ) {
      const where = { component_id: id, id: { gt: after } };
      const page = await deployed.list({ where, order: 'asc', limit: PAGE_SIZE });
      for (const { source_id } of page) found.add(source_id);
      if (page.length < PAGE_SIZE) break;
      after = page.at(-1)!.id;
    }
    const details = { sources: [] as string[], workflows: [] as string[] };
    let hidden = 0;
    // Of a step, `source_id` is the id of the workflow.
    for (const dependent of [...found].sort()) {
      const owner = (await findEmitter(store, dependent))?.owner_id;
      if (owner === undefined) continue;
      if (canAccess(principal, owner)) {
        details[isWorkflowId(dependent) ? 'workflows' : 'sources'].push(dependent);
      } else if (await store.collection(members).get(`${owner_id}/${owner}`)) hidden += 1;
    }
    return { details, hidden };
  }

  /** @throws Problem 409 that lists the dependents */
  async function refuseIfUsed(component: ComponentRow, principal: Principal): Promise<void> {
    const { details, hidden } = await dependentsOf(component, principal);
    const visible = [...details.sources, ...details.workflows];
    const named = visible.slice(0, MAX_NAMED);
    if (visible.length > MAX_NAMED) named.push(`${visible.length - MAX_NAMED} more`);
    if (hidden > 0) {
      const noun = hidden === 1 ? 'source or workflow' : 'sources or workflows';
      named.push(`${hidden} ${noun} of other members of the organization`);
    }
    if (named.length > 0)
      throw conflict('component_in_use', `The component is used by ${LIST.format(named)}.`, details);
  }

  return [
    route(listMyComponents, async ({ input, principal, hold, signal }) =>
      list(ownerFor(principal, input.org_id).owner_id, input, { hold, signal }),
    ),
    route(listOrgComponents, ({ params, input, principal, hold, signal }) => {
      checkMember(principal, params.org_id);
      return list(params.org_id, input, { hold, signal });
    }),
    route(deleteComponent, async ({ params: { id }, principal }) => {
      const component = await rows.get(id);
      if (!component || !canAccess(principal, component.owner_id)) throw notFound('component', id);
      await refuseIfUsed(component, principal);
      if (!(await rows.remove(id))) throw notFound('component', id);
      try {
        // It may have been deployed since the first check.
        await refuseIfUsed(component, principal);
      } catch (error) {
        await rows.insertMany([component]);
        throw error;
      }
      await removeKeys(store, component);
    }),
  ];
}
