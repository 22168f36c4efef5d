import type { DedupeStrategy, Definition, PropDescriptor } from '@wellspring/contract/definition';
import {
  COMPONENT_TYPES,
  DEDUPE_STRATEGIES,
  HOOKS,
  hasTooManyInterfaces,
  isKey,
  MAX_NAME_CHARS,
  MAX_VERSION_CHARS,
  PROP_FIELDS,
} from '@wellspring/contract/definition-rules';
import { LIMITS } from '@wellspring/contract/limits';
import { type Fields, isFields } from '../fields.ts';

/** Reads a definition: the object that the code exports, as data. Everything in it is user data. */

/** Maximum nesting of propDefinitions that refer to others. */
const MAX_DEPTH = 10;

/** @throws Error that says why it is not a component */
export function readDefinition(exported: unknown): Definition {
  if (!isFields(exported)) {
    throw new Error(
      'The code does not define a component: it has to export an object (export default or module.exports).',
    );
  }
  const { name, type = 'source', key, version, description, run, dedupe, additionalProps } = exported;
  if (typeof name !== 'string' || name.trim() === '')
    throw new Error('The component needs a name, a text that is not empty.');
  if (name.length > MAX_NAME_CHARS)
    throw new Error(`The name of the component has more than ${MAX_NAME_CHARS} characters.`);
  if (typeof version === 'string' && version.length > MAX_VERSION_CHARS)
    throw new Error(`The version of the component has more than ${MAX_VERSION_CHARS} characters.`);
  const known = COMPONENT_TYPES.find((candidate) => candidate === type);
  if (!known)
    throw new Error(`The type of the component has to be source, action or app, not ${String(type)}.`);
  if (run !== undefined && run !== null && typeof run !== 'function')
    throw new Error('run has to be a function.');
  if (known === 'action' && typeof run !== 'function') throw new Error('An action needs a run function.');
  if (key !== undefined && key !== null && !isKey(key)) {
    throw new Error('The key of the component has to consist of a-z, 0-9, _ and -, at most 256 of them.');
  }
  if (dedupe !== undefined && dedupe !== null && !DEDUPE_STRATEGIES.includes(dedupe as DedupeStrategy)) {
    throw new Error(`dedupe has to be unique, greatest or last, not ${String(dedupe)}.`);
  }
  readObject('methods', exported.methods);
  const definition: Definition = {
    name,
    key: (key as string | undefined) ?? null,
    version: typeof version === 'string' || typeof version === 'number' ? String(version) : '',
    type: known,
    description: typeof description === 'string' ? description : null,
    props: readProps(exported.props),
    hooks: readHooks(readObject('hooks', exported.hooks)),
    dedupe: (dedupe as DedupeStrategy | undefined) ?? null,
    has_run: typeof run === 'function',
    additional_props: typeof additionalProps === 'function',
  };
  assertSize(definition);
  return definition;
}

/** A field that is an object; empty if it is not given. */
function readObject(name: string, given: unknown): Fields {
  const value = given ?? {};
  if (!isFields(value)) throw new Error(`${name} has to be an object.`);
  return value;
}

function readHooks(hooks: Fields): Definition['hooks'] {
  const given = HOOKS.filter((name) => hooks[name] !== undefined && hooks[name] !== null);
  for (const name of given)
    if (typeof hooks[name] !== 'function') throw new Error(`The hook ${name} has to be a function.`);
  return given;
}

/** @throws Error when the description of a component is larger than the platform stores */
function assertSize(described: unknown): void {
  if (Buffer.byteLength(JSON.stringify(described)) > LIMITS.definitionBytes)
    throw new Error(
      `The descriptions and props of the component have more than ${LIMITS.definitionBytes / 1024 ** 2} MB.`,
    );
}

/** @throws Error that names the prop at fault */
export function readProps(props: unknown): PropDescriptor[] {
  const described = Object.entries(readObject('props', props)).map(([name, prop]) =>
    describe(name, withSchedule(attributesOf(name, prop))),
  );
  if (described.length > LIMITS.props) throw new Error(`The component has more than ${LIMITS.props} props.`);
  if (hasTooManyInterfaces(described))
    throw new Error(`The component has more than ${LIMITS.interfaces} interfaces.`);
  assertSize(described);
  return described;
}

/** All attributes of a prop: those of its propDefinition, overridden by its own. */
export function attributesOf(name: string, prop: unknown, depth = 0): Fields {
  if (typeof prop === 'string') return { type: prop };
  if (!isFields(prop)) throw new Error(`The prop ${name} has to be an object or the name of a type.`);
  if (prop.propDefinition === undefined) return prop;
  if (depth > MAX_DEPTH) throw new Error(`The propDefinition of ${name} refers to itself.`);
  const [app, definitionName] = Array.isArray(prop.propDefinition) ? prop.propDefinition : [];
  const definitions = isFields(app) ? app.propDefinitions : undefined;
  const inherited =
    isFields(definitions) && typeof definitionName === 'string' ? definitions[definitionName] : undefined;
  if (inherited === undefined) throw new Error(`The propDefinition of ${name} is not defined by its app.`);
  const { propDefinition: _, ...beside } = prop;
  return { ...attributesOf(name, inherited, depth + 1), ...beside };
}

/** Older components give a schedule by attributes of the timer prop: without a value they are its default. */
function withSchedule(attributes: Fields): Fields {
  const { type, cron, intervalSeconds, interval_seconds, timezone } = attributes;
  const isGiven = (cron ?? intervalSeconds ?? interval_seconds ?? undefined) !== undefined;
  const hasValue = (attributes.static ?? attributes.default ?? undefined) !== undefined;
  if (type !== '$.interface.timer' || !isGiven || hasValue) return attributes;
  return { ...attributes, default: { cron, intervalSeconds, interval_seconds, timezone } };
}

function describe(name: string, attributes: Fields): PropDescriptor {
  const { type } = attributes;
  if (typeof type !== 'string' || type === '') throw new Error(`The prop ${name} needs a type.`);
  const descriptor: PropDescriptor = { name, type };
  for (const field of PROP_FIELDS.texts)
    if (typeof attributes[field] === 'string') descriptor[field] = attributes[field];
  for (const field of PROP_FIELDS.flags)
    if (typeof attributes[field] === 'boolean') descriptor[field] = attributes[field];
  for (const field of PROP_FIELDS.numbers) {
    // JSON cannot represent other numbers.
    if (Number.isFinite(attributes[field])) descriptor[field] = attributes[field] as number;
  }
  for (const field of PROP_FIELDS.values) {
    const value = asJson(attributes[field]);
    if (value !== undefined) descriptor[field] = value;
  }
  if (typeof attributes.options === 'function') descriptor.options = true;
  else if (Array.isArray(attributes.options)) descriptor.options = asJson(attributes.options);
  if (type === 'app') {
    if (typeof attributes.app !== 'string') throw new Error(`The app prop ${name} has to name its app.`);
    descriptor.app = attributes.app;
  }
  return descriptor;
}

/** The value after a round trip through JSON; undefined if JSON cannot represent it. */
function asJson(value: unknown): unknown {
  if (value === undefined) return undefined;
  try {
    const text = JSON.stringify(value);
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}
