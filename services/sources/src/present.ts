import { presentValues } from '@wellspring/component/values';
import { endpointUrl } from '@wellspring/contract/endpoint-url';
import type { Deps } from '@wellspring/runtime/deps';
import { deployments, type SourceRow } from '@wellspring/store/collections/sources';
import type { Interfaces } from './interfaces.ts';

/** A source as the API shows it. */
export function createPresenter({ store, config }: Pick<Deps, 'store' | 'config'>, interfaces: Interfaces) {
  const deploymentRows = store.collection(deployments);
  return async (source: SourceRow) => {
    const [deployment, keys] = await Promise.all([
      deploymentRows.get(source.deployment_id),
      interfaces.keys(source.id),
    ]);
    const urls = Object.fromEntries(
      Object.entries(keys).map(([prop, key]) => [prop, endpointUrl(config, key)]),
    );
    return {
      id: source.id,
      user_id: source.user_id,
      owner_id: source.owner_id,
      component_id: source.component_id,
      configured_props: deployment
        ? presentValues(deployment.definition.props, deployment.configured_props, urls)
        : {},
      active: source.active,
      concurrency: source.concurrency,
      created_at: source.created_at,
      updated_at: source.updated_at,
      name: source.name,
      name_slug: source.name_slug,
    };
  };
}
export type Present = ReturnType<typeof createPresenter>;
