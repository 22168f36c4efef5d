import { expressionsIn } from '@wellspring/component/expressions';
import { MASK } from '@wellspring/component/values';
import { LIMITS } from '@wellspring/contract/limits';
import { newId } from '@wellspring/core/ids';
import { invalidParameter, Problem } from '@wellspring/core/problem';
import { sealValues } from '@wellspring/runtime/secret-values';
import type { ComponentRow } from '@wellspring/store/collections/components';
import type { DeploymentRow } from '@wellspring/store/collections/sources';
import type { WorkflowDeploymentRow } from '@wellspring/store/collections/workflows';
import type { SourcesContext } from '../context.ts';
import { newDeployment, resolveComponent } from '../deployment.ts';
import type { WorkflowDefinition } from './read-definition.ts';

type Values = Record<string, unknown>;
export type DeployedStep = WorkflowDeploymentRow['steps'][number];

/** Runs work on a part of a definition; a Problem then names the part. */
export async function within<T>(param: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Problem) || error.status >= 500) throw error;
    const { status, code, message, headers } = error;
    const prop = error.param?.startsWith('configured_props.')
      ? error.param.slice('configured_props.'.length)
      : undefined;
    const named = prop === undefined ? `${param}.component` : `${param}.props.${prop}`;
    const text = prop === undefined ? `${named}: ${message}` : message.replaceAll(error.param!, named);
    throw new Problem({ status, code, message: text, param: named, headers });
  }
}

/** The values before an update of secrets that came back masked. */
export function keptValues(given: Values, before: Values): Values {
  const masked = Object.keys(given).filter((name) => given[name] === MASK && Object.hasOwn(before, name));
  return Object.fromEntries(masked.map((name) => [name, before[name]]));
}

/**
 * Resolves the components of all steps and checks their props, except those with expressions. Nothing is stored.
 * @param previous values by name of the step before an update; a secret that comes back masked keeps its value
 * @throws Problem 400 that names the step
 */
export async function newSteps(
  context: Pick<SourcesContext, 'deps' | 'configurator'>,
  workflow: { id: string; owner_id: string; readers: string[] },
  { steps }: WorkflowDefinition,
  previous: ReadonlyMap<string, Values>,
): Promise<{ steps: DeployedStep[]; rows: DeploymentRow[] }> {
  const rows: DeploymentRow[] = [];
  let bytes = 0;
  for (const { name, param, component, props } of steps) {
    const row = await within(param, async () => {
      const { readers, owner_id } = workflow;
      const found = await resolveComponent(context.deps, readers, owner_id, component, 'action');
      return newStep(context, workflow, found, props, previous.get(name) ?? {});
    });
    // A run has all of them in memory: an update meanwhile removes those of the former workflow.
    bytes += JSON.stringify([row.definition, row.configured_props]).length;
    if (bytes > LIMITS.stepsBytes) {
      const size = `${LIMITS.stepsBytes / 1024 ** 2} MB as JSON`;
      const why = `The components of definition.steps and their props have more than ${size}.`;
      throw invalidParameter('definition.steps', why);
    }
    rows.push(row);
  }
  const deployed = steps.map(({ name }, index) => ({
    name,
    cell_id: newId('c'),
    deployment_id: rows[index]!.id,
  }));
  return { steps: deployed, rows };
}

async function newStep(
  { deps, configurator }: Pick<SourcesContext, 'deps' | 'configurator'>,
  { id, owner_id }: { id: string; owner_id: string },
  component: ComponentRow,
  given: Values,
  before: Values,
): Promise<DeploymentRow> {
  const templates = new Set(Object.keys(given).filter((name) => expressionsIn(given[name]).length > 0));
  const row = await newDeployment(deps, configurator, {
    sourceId: id,
    component,
    principal: { kind: 'operator' },
    ownerId: owner_id,
    given,
    previous: keptValues(given, before),
    deferred: templates,
  });
  const filled: Values = {};
  for (const { name, type } of row.definition.props) {
    if (!templates.has(name)) continue;
    // Whether the account may be used is checked at deploy.
    if (type === 'app') {
      throw invalidParameter(`configured_props.${name}`, 'An app prop must not contain expressions.');
    }
    const value = given[name];
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    if (Buffer.byteLength(text) > LIMITS.propValue) {
      const param = `configured_props.${name}`;
      throw invalidParameter(param, `${param} has more than ${LIMITS.propValue / 1024} KB.`);
    }
    Object.defineProperty(filled, name, { value, enumerable: true, configurable: true, writable: true });
  }
  const sealed = sealValues(deps, row.definition.props, filled, id);
  return { ...row, configured_props: { ...row.configured_props, ...sealed } };
}
