import type { Instance } from '@wellspring/component/program/program-types';
import type { Bundle, Definition } from '@wellspring/contract/definition';
import { endpointUrl } from '@wellspring/contract/endpoint-url';
import { emitterPatterns } from '@wellspring/core/glob';
import { createLru } from '@wellspring/core/lru';
import { type Accounts, createAccounts } from '@wellspring/runtime/accounts';
import type { Deps } from '@wellspring/runtime/deps';
import type { AccountRow } from '@wellspring/store/collections/accounts';
import { bundles } from '@wellspring/store/collections/components';
import { type Emitter, findEmitter, isWorkflowId } from '@wellspring/store/collections/emitters';
import { createRevisionCache, currentRevision } from '@wellspring/store/collections/revisions';
import { deployments, endpoints } from '@wellspring/store/collections/sources';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { type WorkflowDeploymentRow, workflowDeployments } from '@wellspring/store/collections/workflows';
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

/** State of a source or workflow that may change between two runs. */
export interface Current {
  source: Emitter;
  /** `$logs` has a subscriber. */
  logsWanted: boolean;
  /** Revision of the listeners, and of this state, at the time of the read. */
  revision: number;
  /** See performance.now. */
  readAt: number;
}

export interface DeployedSource extends Current {
  deployment: Deployment;
  workflow?: undefined;
}

export interface Step {
  name: string;
  cell_id: string;
  deployment: Deployment;
}

/** `source` is the workflow. */
export interface DeployedWorkflow extends Current {
  deployment: Pick<Deployment, 'id' | 'mask'>;
  workflow: { name: string; steps: Step[] };
}

export type Deployed = DeployedSource | DeployedWorkflow;

export interface Catalog {
  /** The current source or workflow with its current or the given deployment; undefined if it was deleted. */
  load(id: string, deploymentId?: string): Promise<Deployed | undefined>;
  /**
   * The revision of the listeners for the message of a run. Read anew for one that took longer than 50 ms, since listeners
   * may have been created meanwhile; undefined if that fails.
   */
  revisionOf(deployed: Current): Promise<number | undefined>;
}

/** Deployments in memory. They are immutable, so entries never need invalidation. */
const CACHE_SIZE = 2000;
/** Sources and workflows in memory. */
const MAX_CURRENT = 10_000;
const MAX_REVISION_AGE_MS = 50;

/** The end of a sealed text differs each time something is sealed. */
const revisionOf = (found: ReadonlyMap<string, AccountRow>) =>
  [...found].map(([prop, { id, credentials }]) => `${prop}:${id}:${credentials.slice(-16)}`).join(' ');

export function createCatalog(
  { store, seal, config, clock }: Pick<Deps, 'store' | 'seal' | 'config' | 'clock'>,
  accounts: Pick<Accounts, 'find' | 'open'> = createAccounts({ store, seal }),
): Catalog {
  const deploymentRows = store.collection(deployments);
  const endpointRows = store.collection(endpoints);
  const bundleRows = store.collection(bundles);
  const workflowRows = store.collection(workflowDeployments);
  const subscriptionRows = store.collection(subscriptions);
  const currents = createRevisionCache<Pick<Current, 'source' | 'logsWanted'>>(clock, MAX_CURRENT);
  const cache = createLru<Stored>(CACHE_SIZE);
  const cachedWorkflows = createLru<Omit<WorkflowDeploymentRow, 'definition'>>(CACHE_SIZE);
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

  async function read(source: Emitter, id: string): Promise<Stored | undefined> {
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

  async function loadCode(source: Emitter, id: string): Promise<Deployment | undefined> {
    const stored = cache.get(id) ?? (await read(source, id));
    if (!stored) return undefined;
    cache.set(id, stored);
    return addAccounts(stored, source.owner_id);
  }

  /** Without the definition, which may be large. */
  async function readWorkflow(id: string) {
    const row = await workflowRows.get(id);
    if (!row) return undefined;
    const { definition: _, ...rest } = row;
    return rest;
  }

  async function loadWorkflow(current: Current, id: string): Promise<DeployedWorkflow | undefined> {
    const { source } = current;
    const row = cachedWorkflows.get(id) ?? (await readWorkflow(id));
    if (row?.workflow_id !== source.id) return undefined;
    cachedWorkflows.set(id, row);
    const steps: Step[] = [];
    for (const { name, cell_id, deployment_id } of row.steps) {
      const deployment = await loadCode(source, deployment_id);
      if (!deployment) return undefined;
      steps.push({ name, cell_id, deployment });
    }
    const mask: Mask = (text) => steps.reduce((masked, step) => step.deployment.mask(masked), text);
    return { ...current, deployment: { id, mask }, workflow: { name: row.name, steps } };
  }

  async function loadDeployed(current: Current, id: string): Promise<Deployed | undefined> {
    if (isWorkflowId(current.source.id)) return loadWorkflow(current, id);
    const deployment = await loadCode(current.source, id);
    return deployment && { ...current, deployment };
  }

  const readRevision = () => currentRevision(store, 'listeners');

  async function readCurrent(emitterId: string, revision: number) {
    const source = await findEmitter(store, emitterId);
    if (!source) return undefined;
    const patterns = emitterPatterns(emitterId, source.owner_id);
    const where = { emitter_id: { in: patterns }, event_name: '$logs' };
    const logsWanted = (await subscriptionRows.count(where, 1)) > 0;
    currents.set(emitterId, { source, logsWanted }, revision);
    return { source, logsWanted };
  }

  return {
    async revisionOf({ revision, readAt }) {
      if (performance.now() - readAt <= MAX_REVISION_AGE_MS) return revision;
      return readRevision().catch(() => undefined);
    },
    async load(emitterId, deploymentId) {
      for (let missing: string | undefined; ; ) {
        const readAt = performance.now();
        const revision = await readRevision();
        const known = missing === undefined ? currents.get(emitterId, revision) : undefined;
        const found = known ?? (await readCurrent(emitterId, revision));
        if (!found) return undefined;
        const current = { ...found, revision, readAt };
        const id = deploymentId ?? current.source.deployment_id;
        const deployed = await loadDeployed(current, id);
        if (deployed) return deployed;
        // An update may have removed it since the source was read: reread once.
        if (missing === id) return undefined;
        missing = id;
      }
    },
  };
}
