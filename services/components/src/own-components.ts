import {
  deleteComponent,
  listMyComponents,
  listOrgComponents,
} from '@wellspring/contract/endpoints/components';
import type { Principal } from '@wellspring/contract/principal';
import { conflict, notFound } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { listPage, type PageInput } from '@wellspring/http/paging';
import { canAccess } from '@wellspring/http/principal';
import { type ComponentRow, components, publishedKeys } from '@wellspring/store/collections/components';
import { deployments, sources } from '@wellspring/store/collections/sources';
import { members } from '@wellspring/store/collections/users';
import { workflows } from '@wellspring/store/collections/workflows';
import type { ComponentsContext } from './context.ts';
import { presentComponent } from './present.ts';

/** Lists and deletes the components of users and organizations. */
export function ownComponentRoutes({ deps }: ComponentsContext): Route[] {
  const { store } = deps;
  const rows = store.collection(components);
  const list = async (owner_id: string, input: PageInput) => {
    const page = await listPage(rows, { owner_id }, input);
    return { ...page, data: page.data.map(presentComponent) };
  };

  /**
   * Sources and workflows whose deployments were made from the component: ids of those that the caller may see, and the
   * number of those that belong to other members of its organization.
   */
  async function usersOf({ id, owner_id }: ComponentRow, principal: Principal) {
    const found = await store.collection(deployments).list({ where: { component_id: id } });
    const ids = [...new Set(found.map(({ source_id }) => source_id))].sort();
    let others = 0;
    const visible = async (collection: { get(id: string): Promise<{ owner_id: string } | undefined> }) => {
      const shown: string[] = [];
      for (const user of ids) {
        const owner = (await collection.get(user))?.owner_id;
        if (owner === undefined) continue;
        if (canAccess(principal, owner)) shown.push(user);
        else if (await store.collection(members).get(`${owner_id}/${owner}`)) others += 1;
      }
      return shown;
    };
    const details = {
      sources: await visible(store.collection(sources)),
      workflows: await visible(store.collection(workflows)),
    };
    return { details, others };
  }

  /** Removes the keys of a component; `key` then names the remaining component that was saved last. */
  async function removeKeys(id: string, ownerId: string, key: string | null): Promise<void> {
    const keys = store.collection(publishedKeys);
    await keys.removeWhere({ component_id: id });
    if (key === null || (await keys.get(`${ownerId}/${key}`))) return;
    // `A` follows `@`.
    const versions = await keys.list({
      where: { id: { gt: `${ownerId}/${key}@`, lt: `${ownerId}/${key}A` } },
    });
    const last = versions
      .map(({ component_id }) => component_id)
      .sort()
      .at(-1);
    if (last === undefined) return;
    await keys.insertMany([{ id: `${ownerId}/${key}`, owner_id: ownerId, key, component_id: last }]);
  }

  return [
    route(listMyComponents, ({ input, principal }) => {
      if (principal.kind !== 'user') throw notFound('user');
      return list(principal.user_id, input);
    }),
    route(listOrgComponents, ({ params, input, principal }) => {
      if (!params.org_id.startsWith('o_') || !canAccess(principal, params.org_id))
        throw notFound('organization', params.org_id);
      return list(params.org_id, input);
    }),
    route(deleteComponent, async ({ params: { id }, principal }) => {
      const component = await rows.get(id);
      if (!component || !canAccess(principal, component.owner_id)) throw notFound('component', id);
      const refuseIfUsed = async () => {
        const { details, others } = await usersOf(component, principal);
        const used = [...details.sources, ...details.workflows].slice(0, 5);
        if (others > 0) used.push(`${others} of other members of the organization`);
        if (used.length > 0)
          throw conflict('component_in_use', `The component is used by ${used.join(', ')}.`, details);
      };
      await refuseIfUsed();
      if (!(await rows.remove(id))) throw notFound('component', id);
      try {
        // It may have been deployed in between.
        await refuseIfUsed();
      } catch (error) {
        await rows.insertMany([component]);
        throw error;
      }
      await removeKeys(id, component.owner_id, component.definition.key);
    }),
  ];
}
