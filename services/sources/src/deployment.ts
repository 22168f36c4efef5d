import { CALLS, PREPARE_DEADLINE_MS, PREPARE_REACH_MS, type ResolveCall } from '@wellspring/contract/calls';
import type { Definition } from '@wellspring/contract/definition';
import { LIMITS } from '@wellspring/contract/limits';
import type { Principal } from '@wellspring/contract/principal';
import { newId } from '@wellspring/core/ids';
import { invalidComponent, invalidParameter, notFound } from '@wellspring/core/problem';
import type { Configuration, Configurator } from '@wellspring/runtime/configure';
import type { Deps } from '@wellspring/runtime/deps';
import { sealValues } from '@wellspring/runtime/secret-values';
import { type ComponentRow, components } from '@wellspring/store/collections/components';
import { type DeploymentRow, deployments, sources } from '@wellspring/store/collections/sources';

/** The four ways to identify a component, by precedence. */
const IDENTIFIERS = ['component_id', 'component_code', 'key', 'component_url'] as const;

export type Identifiers = { [name in (typeof IDENTIFIERS)[number]]?: string | null | undefined };

/** The parameter that identifies the component, if any. */
const identifierOf = (input: Identifiers) => IDENTIFIERS.find((name) => input[name] != null);

export const namesComponent = (input: Identifiers): boolean => identifierOf(input) !== undefined;

/** The owners whose components a caller may use by id. */
export const readersFor = (principal: Principal, ownerId: string): string[] =>
  principal.kind === 'user' ? [principal.user_id, ...principal.org_ids] : [ownerId];

/**
 * The component with these identifiers.
 * @param reader_ids owners whose components may be used by id
 * @throws Problem 400, 404
 */
export async function resolveComponent(
  { call, store }: Pick<Deps, 'call' | 'store'>,
  reader_ids: string[],
  ownerId: string,
  identifiers: Identifiers,
  type: 'source' | 'action',
): Promise<ComponentRow> {
  const { component_id, component_code, key, component_url } = identifiers;
  const message: ResolveCall['message'] = {
    owner_id: ownerId,
    reader_ids,
    component_id,
    component_code,
    key,
    component_url,
  };
  const answer = (await call.request(CALLS.resolve, message, {
    deadlineMs: PREPARE_DEADLINE_MS,
    reachMs: PREPARE_REACH_MS,
  })) as ResolveCall['answer'];
  const component = await store.collection(components).get(answer.component_id);
  if (!component) throw notFound('component', answer.component_id);
  const given = component.definition.type;
  if (given !== type) {
    throw invalidComponent(
      type === 'source'
        ? `The component is of type ${given}; only a source can be deployed.`
        : `The component is of type ${given}; a step has to be an action.`,
      identifierOf(identifiers),
    );
  }
  return component;
}

/**
 * A new deployment of the source, not stored yet.
 * @param previous values of the previous deployment, with secrets in clear; `given` is merged into them by prop name
 * @throws Problem 400 that names the prop, or with the message of additionalProps
 */
export async function newDeployment(
  { seal, clock }: Pick<Deps, 'seal' | 'clock'>,
  configurator: Pick<Configurator, 'deploy'>,
  { sourceId, component, ...configuration }: NewDeployment,
): Promise<DeploymentRow> {
  const { definition, values } = await configurator.deploy({ component, ...configuration });
  // Updates are merged into the former values.
  if (JSON.stringify(values).length > LIMITS.propValues)
    throw invalidParameter('configured_props', 'configured_props have more than 2 MB as JSON.');
  return {
    id: newId('d'),
    source_id: sourceId,
    component_id: component.id,
    bundle_id: component.bundle_id,
    definition,
    configured_props: sealValues({ seal }, definition.props, values, sourceId),
    created_at: Math.floor(clock.now() / 1000),
  };
}

interface NewDeployment extends Configuration {
  sourceId: string;
  component: Pick<ComponentRow, 'id' | 'bundle_id' | 'definition'>;
}

/** @throws Problem 400: out of range, or the component has state between its runs */
export function checkConcurrency(concurrency: number, { props, dedupe }: Definition): number {
  if (concurrency === 1) return 1;
  const refuse = (why: string) => invalidParameter('concurrency', `concurrency ${why}`);
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 10)
    throw refuse('has to be an integer from 2 to 10.');
  if (dedupe !== null) throw refuse('is not allowed for a source with a dedupe strategy.');
  if (props.some(({ type }) => type === '$.service.db' || type === 'data_store'))
    throw refuse('is not allowed for a source with $.service.db or a data store.');
  return concurrency;
}

/**
 * Removes the former deployments of a source. The source is read after the list: an update names its deployment in the
 * row before it stores it, so that the deployment of an update in another process, if listed, is found in the row.
 */
export async function dropUnusedDeployments({ store }: Pick<Deps, 'store'>, sourceId: string): Promise<void> {
  const rows = store.collection(deployments);
  const found = await rows.list({ where: { source_id: sourceId } });
  const source = await store.collection(sources).get(sourceId);
  const inUse = [source?.deployment_id, source?.transition?.revert?.deployment_id, source?.transition?.next];
  for (const { id } of found) if (!inUse.includes(id)) await rows.remove(id);
}
