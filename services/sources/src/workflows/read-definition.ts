import { expressionsIn, parsePath } from '@wellspring/component/expressions';
import { LIMITS } from '@wellspring/contract/limits';
import { isId } from '@wellspring/core/ids';
import { invalidParameter, missingParameter } from '@wellspring/core/problem';
import type { Identifiers } from '../deployment.ts';

export interface Part {
  component: Identifiers;
  props: Record<string, unknown>;
}

export type TriggerDefinition =
  | { kind: 'component'; part: Part }
  | { kind: 'source'; source_id: string }
  | { kind: 'http' };

export interface StepDefinition extends Part {
  name: string;
  /** `definition.steps[0]` */
  param: string;
}

export interface WorkflowDefinition {
  name: string;
  trigger: TriggerDefinition;
  steps: StepDefinition[];
}

type Fields = Record<string, unknown>;

const MAX_NAME_CHARS = 1000;
const STEP_NAME = /^[A-Za-z_$][\w$]{0,63}$/;
const KEY = /^[a-z0-9_-]{1,256}(?:@[\w.+-]{1,256})?$/;

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The definition of a workflow: `{name, trigger, steps}`. Unknown fields are ignored.
 * @throws Problem 400 that names the field at fault, as `definition.steps[0].name`
 */
export function readDefinition(given: unknown): WorkflowDefinition {
  if (!isObject(given)) throw invalidParameter('definition', 'definition must be an object.');
  const { name, trigger, steps } = given;
  if (typeof name !== 'string' || name.trim() === '' || name.length > MAX_NAME_CHARS) {
    throw invalidParameter(
      'definition.name',
      `definition.name must be a text of 1 to ${MAX_NAME_CHARS} characters.`,
    );
  }
  const from = readTrigger(trigger);
  if (!Array.isArray(steps) || steps.length === 0 || steps.length > LIMITS.steps) {
    throw invalidParameter(
      'definition.steps',
      `definition.steps must be a list of 1 to ${LIMITS.steps} steps.`,
    );
  }
  const known = new Set(['trigger']);
  const read = steps.map((step, index) => readStep(step, `definition.steps[${index}]`, known));
  return { name, trigger: from, steps: read };
}

function readTrigger(given: unknown): TriggerDefinition {
  const param = 'definition.trigger';
  if (!isObject(given)) throw missingParameter(param, `${param} must be an object.`);
  const { component, source_id, http, props } = given;
  const kinds = [component !== undefined, source_id !== undefined, http === true];
  if (kinds.filter(Boolean).length !== 1) {
    throw invalidParameter(param, `${param} must contain one of component, source_id and http: true.`);
  }
  readProps(props, param);
  if (http === true) return { kind: 'http' };
  if (component !== undefined) return { kind: 'component', part: readPart(given, param) };
  if (typeof source_id !== 'string')
    throw invalidParameter(`${param}.source_id`, `${param}.source_id must be the id of a source.`);
  return { kind: 'source', source_id };
}

/** @param known names that the step may refer to; its own is added */
function readStep(given: unknown, param: string, known: Set<string>): StepDefinition {
  if (!isObject(given)) throw invalidParameter(param, `${param} must be an object.`);
  const { name } = given;
  if (typeof name !== 'string' || !STEP_NAME.test(name) || name === '__proto__') {
    throw invalidParameter(
      `${param}.name`,
      `${param}.name must be an identifier of at most 64 letters, digits, _ and $.`,
    );
  }
  if (known.has(name)) {
    const why = name === 'trigger' ? 'must not be trigger' : `is ${name} again: names of steps are unique`;
    throw invalidParameter(`${param}.name`, `${param}.name ${why}.`);
  }
  const part = readPart(given, param);
  for (const [prop, value] of Object.entries(part.props))
    checkExpressions(value, `${param}.props.${prop}`, known);
  known.add(name);
  return { ...part, name, param };
}

function checkExpressions(value: unknown, param: string, known: ReadonlySet<string>): void {
  for (const expression of expressionsIn(value)) {
    const step = parsePath(expression)?.[0];
    if (step !== undefined && !known.has(step)) {
      throw invalidParameter(param, `${param} refers to steps.${step}, which is not an earlier step.`);
    }
  }
}

function readPart({ component, props }: Fields, param: string): Part {
  if (component === undefined) throw missingParameter(`${param}.component`);
  if (typeof component !== 'string' || component === '') {
    throw invalidParameter(`${param}.component`, `${param}.component must be a key, an id (sc_…) or code.`);
  }
  return { component: identify(component), props: readProps(props, param) };
}

function readProps(given: unknown, param: string): Fields {
  const props = given ?? {};
  if (!isObject(props)) throw invalidParameter(`${param}.props`, `${param}.props must be an object.`);
  return props;
}

function identify(component: string): Identifiers {
  if (isId('sc', component)) return { component_id: component };
  return KEY.test(component) ? { key: component } : { component_code: component };
}
