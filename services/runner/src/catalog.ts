import type { Instance } from '@wellspring/component/program/program-types';
import type { Bundle, Definition } from '@wellspring/contract/definition';
import { endpointUrl } from '@wellspring/contract/endpoint-url';
import { createLru } from '@wellspring/core/lru';
import type { Deps } from '@wellspring/runtime/deps';
import { bundles } from '@wellspring/store/collections/components';
import { deployments, endpoints, type SourceRow, sources } from '@wellspring/store/collections/sources';
import { createMask, type Mask } from './mask-secrets.ts';

/** The immutable part of a deployment, ready to run. */
export interface Deployment {
  id: string;
  bundleId: string;
  bundle: Bundle;
  definition: Definition;
  instance: Omit<Instance, 'db' | 'dbRevision'>;
  /** Masks the values of its secret props in logs and errors. */
  mask: Mask;
}

export interface Deployed {
  source: SourceRow;
  deployment: Deployment;
}

export interface Catalog {
  /** The current source with its current or the given deployment; undefined if it was deleted. */
  load(sourceId: string, deploymentId?: string): Promise<Deployed | undefined>;
}

/** Deployments in memory. They are immutable, so entries never need invalidation. */
const CACHE_SIZE = 2000;

export function createCatalog({ store, seal, config }: Pick<Deps, 'store' | 'seal' | 'config'>): Catalog {
  const sourceRows = store.collection(sources);
  const deploymentRows = store.collection(deployments);
  const endpointRows = store.collection(endpoints);
  const bundleRows = store.collection(bundles);
  const cache = createLru<Deployment>(CACHE_SIZE);

  async function read(source: SourceRow, id: string): Promise<Deployment | undefined> {
    const row = await deploymentRows.get(id);
    if (row?.source_id !== source.id) return undefined;
    const [bundle, own] = await Promise.all([
      bundleRows.get(row.bundle_id),
      endpointRows.list({ where: { source_id: source.id }, order: 'asc' }),
    ]);
    if (!bundle) throw new Error(`The bundle ${row.bundle_id} of the deployment ${id} is missing`);
    const { definition } = row;
    const values: Record<string, unknown> = { ...row.configured_props };
    const secrets: string[] = [];
    for (const { name, secret } of definition.props) {
      const value = values[name];
      if (!secret || typeof value !== 'string') continue;
      const opened = seal.open(value, source.id);
      values[name] = opened;
      secrets.push(opened);
    }
    const customResponse = new Map(definition.props.map((prop) => [prop.name, prop.customResponse === true]));
    return {
      id,
      bundleId: row.bundle_id,
      bundle: JSON.parse(bundle.content) as Bundle,
      definition,
      mask: createMask(secrets),
      instance: {
        source_id: source.id,
        props: definition.props,
        values,
        endpoints: Object.fromEntries(
          own.map(({ id: key, prop }) => [
            prop,
            { url: endpointUrl(config, key), customResponse: customResponse.get(prop) ?? false },
          ]),
        ),
      },
    };
  }

  return {
    async load(sourceId, deploymentId) {
      for (let missing: string | undefined; ; ) {
        const source = await sourceRows.get(sourceId);
        if (!source) return undefined;
        const id = deploymentId ?? source.deployment_id;
        const deployment = cache.get(id) ?? (await read(source, id));
        if (deployment) {
          cache.set(id, deployment);
          return { source, deployment };
        }
        // An update may have removed it since the source was read: reread once.
        if (missing === id) return undefined;
        missing = id;
      }
    },
  };
}
