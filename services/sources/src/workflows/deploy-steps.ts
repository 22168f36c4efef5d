import { expressionsIn } from '@wellspring/component/expressions';
import { MASK } from '@wellspring/component/values';
import { LIMITS } from '@wellspring/contract/limits';
import { newId } from '@wellspring/core/ids';
import { invalidParameter, Problem } from '@wellspring/core/problem';
import type { ComponentRow } from '@wellspring/store/collections/components';
import type { DeploymentRow } from '@wellspring/store/collections/sources';
import type { WorkflowDeploymentRow } from '@wellspring/store/collections/workflows';
import { type DeployDeps, newDeployment, resolveComponent } from '../deployment.ts';
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

/**
 * Resolves the components of all steps and checks their props, except those with expressions. Nothing is stored.
 * @param previous values by name of the step before an update; a secret that comes back masked keeps its value
 * @throws Problem 400 that names the step
 */
export async function newSteps(
  deps: DeployDeps,
  workflow: { id: string; owner_id: string; readers: string[] },
  { steps }: WorkflowDefinition,
  previous: ReadonlyMap<string, Values>,
): Promise<{ steps: DeployedStep[]; rows: DeploymentRow[] }> {
  const rows: DeploymentRow[] = [];
  for (const { name, param, component, props } of steps) {
    rows.push(
      await within(param, async () => {
        const { readers, owner_id } = workflow;
        const row = await resolveComponent(deps, readers, owner_id, component, 'action');
        return newStep(deps, workflow.id, row, props, previous.get(name));
      }),
    );
  }
  const deployed = steps.map(({ name }, index) => ({
    name,
    cell_id: newId('c'),
    deployment_id: rows[index]!.id,
  }));
  return { steps: deployed, rows };
}

function newStep(
  deps: DeployDeps,
  workflowId: string,
  component: ComponentRow,
  given: Values,
  previous: Values | undefined,
): DeploymentRow {
  const { definition } = component;
  const isTemplate = (name: string) => Object.hasOwn(given, name) && expressionsIn(given[name]).length > 0;
  const props = definition.props.filter(({ name }) => !isTemplate(name));
  const secrets = Object.fromEntries(
    props.flatMap(({ name, secret }) =>
      secret && given[name] === MASK && previous ? [[name, previous[name]]] : [],
    ),
  );
  const stripped = { ...component, definition: { ...definition, props } };
  const row = newDeployment(deps, workflowId, stripped, given, secrets);
  const configured_props = { ...row.configured_props };
  for (const { name, secret } of definition.props) {
    if (!isTemplate(name)) continue;
    const value = given[name];
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    if (Buffer.byteLength(text) > LIMITS.propValue) {
      const param = `configured_props.${name}`;
      throw invalidParameter(param, `${param} has more than ${LIMITS.propValue / 1024} KB.`);
    }
    Object.defineProperty(configured_props, name, {
      value: secret && typeof value === 'string' ? deps.seal.seal(value, workflowId) : value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return { ...row, definition, configured_props };
}
