import {
  deleteComponent,
  listMyComponents,
  listOrgComponents,
} from '@wellspring/contract/endpoints/components';
import { conflict, notFound } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { listPage, type PageInput } from '@wellspring/http/paging';
import { canRead } from '@wellspring/http/principal';
import { components, publishedKeys } from '@wellspring/store/collections/components';
import { deployments, sources } from '@wellspring/store/collections/sources';
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

  /** Sources and workflows whose deployments were made from the component. */
  async function usersOf(component_id: string, isVisible: (ownerId: string) => boolean) {
    const found = await store.collection(deployments).list({ where: { component_id } });
    const ids = [...new Set(found.map(({ source_id }) => source_id))].sort();
    const visible = async (collection: { get(id: string): Promise<{ owner_id: string } | undefined> }) => {
      const owners = await Promise.all(ids.map((id) => collection.get(id)));
      return ids.filter((_, i) => owners[i] !== undefined && isVisible(owners[i].owner_id));
    };
    return {
      sources: await visible(store.collection(sources)),
      workflows: await visible(store.collection(workflows)),
    };
  }

  /** Removes the keys of a component; `key` then leads to the component saved last of those that are left. */
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
      if (!params.org_id.startsWith('o_') || !canRead(principal, params.org_id))
        throw notFound('organization', params.org_id);
      return list(params.org_id, input);
    }),
    route(deleteComponent, async ({ params: { id }, principal }) => {
      const component = await rows.get(id);
      if (!component || !canRead(principal, component.owner_id)) throw notFound('component', id);
      const refuseIfUsed = async () => {
        const users = await usersOf(id, (ownerId) => canRead(principal, ownerId));
        const used = [...users.sources, ...users.workflows];
        if (used.length > 0)
          throw conflict(
            'component_in_use',
            `The component is used by ${used.slice(0, 5).join(', ')}.`,
            users,
          );
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
