import type { Instance } from '@wellspring/component/program/program-types';
import type { Bundle, Definition } from '@wellspring/contract/definition';
import { endpointUrl } from '@wellspring/contract/endpoint-url';
import { createFairPermits, withPermit } from '@wellspring/core/fair-permits';
import { createLru } from '@wellspring/core/lru';
import { parsedBytes } from '@wellspring/core/parsed-size';
import { createAccounts } from '@wellspring/runtime/accounts';
import type { Deps } from '@wellspring/runtime/deps';
import { openValues, secretTexts } from '@wellspring/runtime/secret-values';
import type { AccountRow } from '@wellspring/store/collections/accounts';
import { type Emitter, findEmitter, isWorkflowId } from '@wellspring/store/collections/emitters';
import { createRevisionCache, currentRevision } from '@wellspring/store/collections/revisions';
import { deployments, endpoints } from '@wellspring/store/collections/sources';
import { type WorkflowDeploymentRow, workflowDeployments } from '@wellspring/store/collections/workflows';
import { allMasks, createMask, type Mask } from './mask-secrets.ts';
import type { OwnerCosts } from './owner-costs.ts';
import { readBundle } from './read-bundle.ts';
import { createRunListeners, type EmitterAtRevision, type RunListeners } from './run-listeners.ts';

/** A deployment, ready to run. */
export interface Deployment {
  id: string;
  bundleId: string;
  readBundle(): Promise<Bundle>;
  definition: Definition;
  instance: Omit<Instance, 'db' | 'dbRevision'>;
  /** Masks the values of its secret props, and the credentials of its accounts, in logs and errors. */
  mask: Mask;
  /** Characters that it takes in memory; see `MAX_CHARS`. */
  size: number;
  /** Accounts are added for each run, since they may change. */
  withoutAccounts: DeploymentWithoutAccounts;
}

interface DeploymentWithoutAccounts extends Omit<Deployment, 'withoutAccounts'> {
  /** Texts in the values of its secret props. */
  secrets: string[];
}

/** A source or workflow as it was at the time of the read; unlike a deployment it may change between two runs. */
export interface LoadedEmitter extends EmitterAtRevision {
  /** Its channel `$logs` has a listener. */
  logsWanted: boolean;
}

export interface DeployedSource extends LoadedEmitter {
  deployment: Deployment;
  workflow?: undefined;
}

export interface Step {
  name: string;
  cell_id: string;
  deployment: Deployment;
}

/** `emitter` is the workflow. */
export interface DeployedWorkflow extends LoadedEmitter {
  deployment: Pick<Deployment, 'id' | 'mask' | 'size'>;
  workflow: { name: string; steps: Step[] };
}

export type Deployed = DeployedSource | DeployedWorkflow;

export interface Catalog {
  /** The current source or workflow with its current or the given deployment; undefined if it was deleted. */
  load(id: string, deploymentId?: string): Promise<Deployed | undefined>;
  /**
   * The same deployment with the source or workflow, and its accounts, as they are now. Undefined if that was deleted, or
   * has another deployment.
   */
  reload(deployed: Deployed): Promise<Deployed | undefined>;
  /** Whether the source or workflow exists. */
  exists(id: string): Promise<boolean>;
  /** The listeners of a run that has ended, on these channels. */
  listenersOfRun(loaded: LoadedEmitter, channels: ReadonlySet<string>): Promise<RunListeners>;
}

/**
 * Characters of deployments in memory, or more if their values take more (parsedBytes). They are immutable, as are the
 * URLs of their endpoints: entries never need invalidation. A definition and values may have megabytes.
 */
const MAX_CHARS = 16 * 1024 * 1024;
/** Of each deployment besides its definition and values. */
const ENTRY_CHARS = 2048;
/** Characters of the forms of a secret in a mask, per character: plain, in URLs, eight in Base64, in hexadecimal. */
const MASK_FORMS = 18;
const MAX_WORKFLOWS = 2000;
/** Sources and workflows in memory. */
const MAX_EMITTERS = 10_000;
/** Deployments loaded at a time, shared fairly between owners: their size is not known before. */
const LOADS = 8;

const charsOf = (texts: readonly string[]) => texts.reduce((sum, text) => sum + text.length, 0);

/** Changes with the accounts and their credentials: encryption with a random nonce makes each sealed text different. */
const fingerprint = (found: ReadonlyMap<string, AccountRow>) =>
  [...found].map(([prop, { id, credentials }]) => `${prop}:${id}:${credentials.slice(-16)}`).join(' ');

function workflowOf(
  loaded: LoadedEmitter,
  id: string,
  workflow: DeployedWorkflow['workflow'],
): DeployedWorkflow {
  const all = workflow.steps.map(({ deployment }) => deployment);
  const size = all.reduce((sum, one) => sum + one.size, 0);
  return { ...loaded, deployment: { id, mask: allMasks(all.map(({ mask }) => mask)), size }, workflow };
}

/** @param costs deployments have megabytes, and masks of many secrets take as long: reading them is charged */
export function createCatalog(
  { store, seal, config, clock }: Pick<Deps, 'store' | 'seal' | 'config' | 'clock'>,
  costs: Pick<OwnerCosts, 'charge'>,
): Catalog {
  const accounts = createAccounts({ store, seal });
  const deploymentRows = store.collection(deployments);
  const endpointRows = store.collection(endpoints);
  const workflowDeploymentRows = store.collection(workflowDeployments);
  const emitters = createRevisionCache<Emitter>(clock, MAX_EMITTERS);
  const runListeners = createRunListeners({ store, clock });
  const withoutAccounts = createLru<DeploymentWithoutAccounts>(MAX_CHARS, ({ size }) => size);
  const cachedWorkflows = createLru<Omit<WorkflowDeploymentRow, 'definition'>>(MAX_WORKFLOWS);
  /** By deployment and fingerprint of its accounts. */
  const withAccounts = createLru<Deployment>(MAX_CHARS, ({ size }) => size);
  const loads = createFairPermits({ total: LOADS });

  /** The deployment with the accounts that its owner may use now: they may have been deleted, or access to them lost. */
  async function addAccounts(deployment: DeploymentWithoutAccounts, ownerId: string): Promise<Deployment> {
    const { definition, instance, secrets, size } = deployment;
    if (!definition.props.some(({ type, name }) => type === 'app' && instance.values[name] !== undefined))
      return { ...deployment, withoutAccounts: deployment };
    const found = await accounts.find(ownerId, definition.props, instance.values);
    const accountsRevision = fingerprint(found);
    const key = `${deployment.id} ${accountsRevision}`;
    const known = withAccounts.get(key);
    if (known) return known;
    const opened = accounts.open(found);
    const credentials = charsOf([...found.values()].map((account) => account.credentials));
    const complete = {
      ...deployment,
      mask: createMask([...secrets, ...Object.values(opened).flatMap((one) => Object.values(one))]),
      instance: { ...instance, accounts: opened, accountsRevision },
      size: size + MASK_FORMS * credentials,
      withoutAccounts: deployment,
    };
    costs.charge(ownerId, { bytes: complete.size });
    withAccounts.set(key, complete);
    return complete;
  }

  async function readDeployment(id: string): Promise<DeploymentWithoutAccounts | undefined> {
    const row = await deploymentRows.get(id);
    if (!row) return undefined;
    const { source_id, bundle_id, definition } = row;
    const endpointsOfSource = await endpointRows.list({ where: { source_id }, order: 'asc' });
    const values = openValues({ seal }, row);
    const secrets = secretTexts(definition.props, values);
    const customResponse = new Map(definition.props.map((prop) => [prop.name, prop.customResponse === true]));
    const deployment = {
      id,
      bundleId: bundle_id,
      readBundle: () => readBundle(store, bundle_id),
      definition,
      mask: createMask(secrets),
      secrets,
      size: ENTRY_CHARS + parsedBytes(JSON.stringify([definition, values])) + MASK_FORMS * charsOf(secrets),
      instance: {
        source_id,
        props: definition.props,
        values,
        endpoints: Object.fromEntries(
          endpointsOfSource.map(({ id: key, prop }) => [
            prop,
            { url: endpointUrl(config, key), customResponse: customResponse.get(prop) ?? false },
          ]),
        ),
      },
    };
    withoutAccounts.set(id, deployment);
    return deployment;
  }

  /** @returns undefined if it does not exist or belongs to another emitter */
  async function loadDeployment({ id: emitterId, owner_id }: Emitter, id: string) {
    const known = withoutAccounts.get(id);
    const deployment = known ?? (await readDeployment(id));
    if (deployment && !known) costs.charge(owner_id, { bytes: deployment.size });
    if (deployment?.instance.source_id !== emitterId) return undefined;
    return addAccounts(deployment, owner_id);
  }

  /** Without the definition, which may be large. */
  async function readWorkflow(id: string) {
    const row = await workflowDeploymentRows.get(id);
    if (!row) return undefined;
    const { definition: _, ...rest } = row;
    cachedWorkflows.set(id, rest);
    return rest;
  }

  async function loadWorkflow(loaded: LoadedEmitter, id: string): Promise<DeployedWorkflow | undefined> {
    const { emitter } = loaded;
    const row = cachedWorkflows.get(id) ?? (await readWorkflow(id));
    if (row?.workflow_id !== emitter.id) return undefined;
    const steps: Step[] = [];
    for (const { name, cell_id, deployment_id } of row.steps) {
      const deployment = await loadDeployment(emitter, deployment_id);
      if (!deployment) return undefined;
      steps.push({ name, cell_id, deployment });
    }
    return workflowOf(loaded, id, { name: row.name, steps });
  }

  async function reloadDeployed(
    loaded: LoadedEmitter,
    { deployment, workflow }: Deployed,
  ): Promise<Deployed> {
    const renew = (former: Deployment) => addAccounts(former.withoutAccounts, loaded.emitter.owner_id);
    if (!workflow) return { ...loaded, deployment: await renew(deployment) };
    const steps: Step[] = [];
    for (const step of workflow.steps) steps.push({ ...step, deployment: await renew(step.deployment) });
    return workflowOf(loaded, deployment.id, { ...workflow, steps });
  }

  async function loadDeployed(loaded: LoadedEmitter, id: string): Promise<Deployed | undefined> {
    if (isWorkflowId(loaded.emitter.id)) return loadWorkflow(loaded, id);
    const deployment = await loadDeployment(loaded.emitter, id);
    return deployment && { ...loaded, deployment };
  }

  const readRevision = () => currentRevision(store, 'listeners');

  async function readEmitter(id: string, revision: number) {
    const emitter = await findEmitter(store, id);
    if (emitter) emitters.set(id, emitter, revision);
    return emitter;
  }

  const findCurrent = async (id: string, revision: number) =>
    emitters.get(id, revision) ?? (await readEmitter(id, revision));

  async function loadEmitter(
    id: string,
    { reread }: { reread: boolean },
  ): Promise<LoadedEmitter | undefined> {
    const readAt = performance.now();
    const revision = await readRevision();
    const emitter = await (reread ? readEmitter : findCurrent)(id, revision);
    if (!emitter) return undefined;
    return { emitter, logsWanted: await runListeners.isHeard(emitter, '$logs', revision), revision, readAt };
  }

  return {
    listenersOfRun: runListeners.of,
    exists: async (id) => (await findCurrent(id, await readRevision())) !== undefined,
    async load(emitterId, deploymentId) {
      let missing: string | undefined;
      for (;;) {
        const loaded = await loadEmitter(emitterId, { reread: missing !== undefined });
        if (!loaded) return undefined;
        const id = deploymentId ?? loaded.emitter.deployment_id;
        const { owner_id } = loaded.emitter;
        const deployed = await withPermit(loads, owner_id, () => loadDeployed(loaded, id));
        if (deployed || id === missing) return deployed;
        // An update may have removed the deployment since the emitter was read.
        missing = id;
      }
    },
    async reload(deployed) {
      const loaded = await loadEmitter(deployed.emitter.id, { reread: false });
      return loaded?.emitter.deployment_id === deployed.deployment.id
        ? reloadDeployed(loaded, deployed)
        : undefined;
    },
  };
}
