import type { Instance } from '@wellspring/component/program/program-types';
import type { Bundle, Definition } from '@wellspring/contract/definition';
import { endpointUrl } from '@wellspring/contract/endpoint-url';
import { createLru } from '@wellspring/core/lru';
import { type Accounts, createAccounts } from '@wellspring/runtime/accounts';
import type { Deps } from '@wellspring/runtime/deps';
import type { AccountRow } from '@wellspring/store/collections/accounts';
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
  /** Masks the values of its secret props, and the credentials of its accounts, in logs and errors. */
  mask: Mask;
}

/** As stored, without the accounts, which change. */
interface Stored extends Deployment {
  secrets: string[];
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

/** The end of a sealed text differs each time something is sealed. */
const revisionOf = (found: ReadonlyMap<string, AccountRow>) =>
  [...found].map(([prop, { id, credentials }]) => `${prop}:${id}:${credentials.slice(-16)}`).join(' ');

export function createCatalog(
  { store, seal, config }: Pick<Deps, 'store' | 'seal' | 'config'>,
  accounts: Pick<Accounts, 'find' | 'open'> = createAccounts({ store, seal }),
): Catalog {
  const sourceRows = store.collection(sources);
  const deploymentRows = store.collection(deployments);
  const endpointRows = store.collection(endpoints);
  const bundleRows = store.collection(bundles);
  const cache = createLru<Stored>(CACHE_SIZE);
  /** By deployment and revision of its accounts. */
  const withAccounts = createLru<Deployment>(CACHE_SIZE);

  /** The deployment with the accounts that its owner may use now: they may have been deleted, or access to them lost. */
  async function addAccounts({ secrets, ...deployment }: Stored, ownerId: string): Promise<Deployment> {
    const { definition, instance } = deployment;
    if (!definition.props.some(({ type, name }) => type === 'app' && instance.values[name] !== undefined))
      return deployment;
    const found = await accounts.find(ownerId, definition.props, instance.values);
    const accountsRevision = revisionOf(found);
    const key = `${deployment.id} ${accountsRevision}`;
    let complete = withAccounts.get(key);
    if (!complete) {
      const opened = accounts.open(found);
      const mask = createMask([...secrets, ...Object.values(opened).flatMap((one) => Object.values(one))]);
      complete = { ...deployment, mask, instance: { ...instance, accounts: opened, accountsRevision } };
      withAccounts.set(key, complete);
    }
    return complete;
  }

  async function read(source: SourceRow, id: string): Promise<Stored | undefined> {
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
      secrets,
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
          return { source, deployment: await addAccounts(deployment, source.owner_id) };
        }
        // An update may have removed it since the source was read: reread once.
        if (missing === id) return undefined;
        missing = id;
      }
    },
  };
}
