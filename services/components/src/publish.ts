import { codeOfFolder } from '@wellspring/component/modules/folder-code';
import {
  operatorListRegistry,
  operatorPublish,
  operatorUnpublish,
} from '@wellspring/contract/endpoints/registry';
import { conflict, invalidComponent, notFound } from '@wellspring/core/problem';
import { byVersion, isSemver } from '@wellspring/core/versions';
import { type Route, route } from '@wellspring/http/bind';
import { components, REGISTRY, registry } from '@wellspring/store/collections/components';
import { ConflictError } from '@wellspring/store/port';
import type { ComponentsContext } from './context.ts';
import { presentComponent } from './present.ts';
import { assertPublishable } from './reserved-keys.ts';
import { ofParameter } from './resolve.ts';

/** The operator's routes of the registry. A published version never changes its code. */
export function registryRoutes({ deps, library }: ComponentsContext): Route[] {
  const rows = deps.store.collection(registry);
  return [
    route(operatorPublish, async ({ input }) => {
      const prepared = await ofParameter('component_code', library.prepare(codeOfFolder(input), REGISTRY));
      const { key, version } = prepared.definition;
      if (key === null) throw invalidComponent('A component of the registry needs a key.', 'component_code');
      if (!isSemver(version))
        throw invalidComponent('A component of the registry needs a semantic version.', 'component_code');
      assertPublishable(prepared.definition, 'component_code');
      const id = `${key}@${version}`;
      const taken = () => conflict('version_published', `${id} is published already.`);
      if (await rows.get(id)) throw taken();
      const component = await library.save(REGISTRY, prepared, null);
      const created_at = Math.floor(deps.clock.now() / 1000);
      try {
        const { id: component_id, content_hash } = component;
        await rows.insert({ id, key, version, component_id, content_hash, created_at });
      } catch (error) {
        throw error instanceof ConflictError ? taken() : error;
      }
      // The retention may have removed it before it was published.
      await deps.store.collection(components).insertMany([component]);
      return presentComponent(component);
    }),
    route(operatorListRegistry, async () =>
      (await rows.list())
        .sort((a, b) => (a.key === b.key ? byVersion(a.version, b.version) : a.key < b.key ? -1 : 1))
        .map(({ key, version, component_id, content_hash, created_at }) => ({
          key,
          version,
          component_id,
          content_hash,
          created_at,
        })),
    ),
    // The component itself is removed when nothing runs it (store/unused-code.ts).
    route(operatorUnpublish, async ({ params: { key, version } }) => {
      if (!(await rows.remove(`${key}@${version}`))) throw notFound('published version', `${key}@${version}`);
    }),
  ];
}
