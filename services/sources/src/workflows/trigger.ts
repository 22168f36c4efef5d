import { isDeepStrictEqual } from 'node:util';
import { MASK } from '@wellspring/component/values';
import type { PropDescriptor } from '@wellspring/contract/definition';
import { newId } from '@wellspring/core/ids';
import { Problem } from '@wellspring/core/problem';
import { openValues } from '@wellspring/runtime/secret-values';
import { type DeploymentRow, deployments, sources } from '@wellspring/store/collections/sources';
import type { WorkflowRow } from '@wellspring/store/collections/workflows';
import type { SourcesContext } from '../context.ts';
import { deploySource } from '../deploy-source.ts';
import { newDeployment, resolveComponent } from '../deployment.ts';
import { keptValues, within } from './deploy-steps.ts';
import type { TriggerDefinition, WorkflowDefinition } from './read-definition.ts';

const PARAM = 'definition.trigger';

/** Emits the request unchanged; the workflow that listens to it sends the response. */
const HTTP_TRIGGER = `export default {
  name: "HTTP trigger",
  version: "1.0.0",
  type: "source",
  props: { http: { type: "$.interface.http", customResponse: true } },
};
`;

/** A checked trigger: the source that exists, or the deployment of the one that will be made, not stored yet. */
export type Trigger = { source_id: string } | { deployment: DeploymentRow };

/**
 * @param before that of the source that the workflow made for its former trigger; a secret that comes back masked keeps
 * its value
 * @throws Problem 400, 404 that names the field of the trigger
 */
export async function checkTrigger(
  { deps, configurator }: SourcesContext,
  workflow: { owner_id: string; readers: string[] },
  trigger: TriggerDefinition,
  before: DeploymentRow | undefined,
): Promise<Trigger> {
  const { owner_id, readers } = workflow;
  if (trigger.kind === 'source') {
    const { source_id } = trigger;
    const source = await deps.store.collection(sources).get(source_id);
    if (!source || source.status === 'deploying' || !readers.includes(source.owner_id)) {
      const message = `There is no source ${source_id}.`;
      throw new Problem({ status: 404, code: 'not_found', message, param: `${PARAM}.source_id` });
    }
    return { source_id };
  }
  const part =
    trigger.kind === 'http' ? { component: { component_code: HTTP_TRIGGER }, props: {} } : trigger.part;
  return within(PARAM, async () => ({
    deployment: await newDeployment(deps, configurator, {
      sourceId: newId('dc'),
      component: await resolveComponent(deps, readers, owner_id, part.component, 'source'),
      principal: { kind: 'operator' },
      ownerId: owner_id,
      given: part.props,
      previous: before ? keptValues(part.props, openValues(deps, before)) : {},
    }),
  }));
}

/** Makes the source of a trigger. */
export async function makeSource(
  context: SourcesContext,
  workflow: { id: string; owner_id: string },
  { name, trigger }: WorkflowDefinition,
  deployment: DeploymentRow,
): Promise<void> {
  const { owner_id } = workflow;
  await within(PARAM, () =>
    deploySource(context, {
      owner_id,
      user_id: owner_id,
      deployment,
      ...(trigger.kind === 'http' && { name, reply_by: workflow.id }),
    }),
  );
}

/** The present deployment of the workflow's source. */
export async function deploymentOf(
  { deps }: SourcesContext,
  { source_id }: WorkflowRow,
): Promise<DeploymentRow | undefined> {
  const source = await deps.store.collection(sources).get(source_id);
  return source && deps.store.collection(deployments).get(source.deployment_id);
}

/**
 * Whether the workflow's source fits the trigger of a new definition, so that it stays, with its endpoint.
 * @param deployment of that source
 * @param before the trigger of its present definition, as stored
 */
export function isUnchanged(
  { deps }: SourcesContext,
  deployment: DeploymentRow,
  before: unknown,
  given: unknown,
): boolean {
  const { props } = deployment.definition;
  if (!isDeepStrictEqual(withMasked(given, props), before)) return false;
  const values = openValues(deps, deployment);
  const own = propsOf(given);
  const isKept = (value: unknown, before: unknown) =>
    value == null || value === MASK || isDeepStrictEqual(value, before);
  return props.every(({ name, secret }) => !secret || isKept(own[name], values[name]));
}

/** Absent props may be null. */
const propsOf = (part: unknown) => (part as { props?: Record<string, unknown> | null }).props ?? {};

/** A trigger or step of a definition, as stored and shown: the values of secret props are masked. */
export function withMasked(part: unknown, descriptors: readonly PropDescriptor[]): unknown {
  const { props, ...others } = part as { props?: Record<string, unknown> | null };
  if (props == null) return others;
  const secret = new Set(descriptors.filter((one) => one.secret).map(({ name }) => name));
  // null unsets a value: there is nothing to hide.
  const masked = Object.entries(props).map(([name, value]) => [
    name,
    secret.has(name) && value !== null ? MASK : value,
  ]);
  return { ...others, props: Object.fromEntries(masked) };
}
