import type { Definition, OptionsAnswer, PropDescriptor } from '@wellspring/contract/definition';
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
import { expect, type Fields, isBoolean, isNumber, isText, nullable } from './frame-fields.ts';
import { ProtocolError } from './protocol.ts';

/** Reads the data that a component describes itself with; see frame-schema. */

/** Objects, arrays, strings and numbers: each costs the main thread time. */
const MAX_DEFINITION_VALUES = 20_000;
const MAX_OPTION_VALUES = 50_000;

const isOneOf = (values: readonly unknown[]) => (value: unknown) => values.includes(value);
const DEFINITION = {
  name: (name: unknown) => isText(name) && name !== '' && name.length <= MAX_NAME_CHARS,
  key: nullable(isKey),
  version: (version: unknown) => isText(version) && version.length <= MAX_VERSION_CHARS,
  type: isOneOf(COMPONENT_TYPES),
  description: nullable(isText),
  hooks: (hooks: unknown) =>
    Array.isArray(hooks) && hooks.length <= HOOKS.length && hooks.every(isOneOf(HOOKS)),
  dedupe: nullable(isOneOf(DEDUPE_STRATEGIES)),
  has_run: isBoolean,
  additional_props: isBoolean,
};

/** Checks types, not the content of texts. */
export function readDefinition(value: unknown): Definition {
  const fields = (typeof value === 'object' && value !== null ? value : {}) as Fields;
  expect(fields, DEFINITION);
  const { name, key, version, type, description, hooks, dedupe, has_run, additional_props } =
    fields as unknown as Definition;
  const props = readProps(fields.props);
  return { name, key, version, type, description, props, hooks, dedupe, has_run, additional_props };
}

export function readProps(value: unknown): PropDescriptor[] {
  if (!Array.isArray(value) || value.length > LIMITS.props)
    throw new ProtocolError('a frame with a bad props');
  const copy = createPlainCopy(MAX_DEFINITION_VALUES);
  const props = value.map((prop) => readDescriptor(prop, copy));
  if (hasTooManyInterfaces(props)) throw new ProtocolError('a frame with a bad props');
  return props;
}

export function readOptions(value: unknown): OptionsAnswer {
  const { options, context = null } = (typeof value === 'object' && value !== null ? value : {}) as Fields;
  if (!Array.isArray(options) || options.length > LIMITS.options)
    throw new ProtocolError('a frame with bad options');
  const copy = createPlainCopy(MAX_OPTION_VALUES);
  return {
    options: options.map((one) => {
      const option = (typeof one === 'object' && one !== null ? one : {}) as Fields;
      if (!isText(option.label)) throw new ProtocolError('a frame with bad options');
      return { label: option.label, value: copy(option.value ?? null) };
    }),
    context: copy(context),
  };
}

function readDescriptor(value: unknown, copy: (value: unknown) => unknown): PropDescriptor {
  const fields = (typeof value === 'object' && value !== null ? value : {}) as Fields;
  const { name, type } = fields;
  if (!isText(name) || !isText(type)) throw new ProtocolError('a frame with a bad props');
  const descriptor: Fields = { name, type };
  const take = (names: readonly string[], check: (field: unknown) => boolean) => {
    for (const field of names) {
      if (!Object.hasOwn(fields, field)) continue;
      if (!check(fields[field])) throw new ProtocolError('a frame with a bad props');
      descriptor[field] = copy(fields[field]);
    }
  };
  take([...PROP_FIELDS.texts, 'app'], isText);
  take(PROP_FIELDS.flags, isBoolean);
  take(PROP_FIELDS.numbers, isNumber);
  take([...PROP_FIELDS.values, 'options'], () => true);
  return descriptor as unknown as PropDescriptor;
}

/** Copies JSON values without keys named `__proto__`. @throws ProtocolError beyond `maxValues` in total */
function createPlainCopy(maxValues: number): (value: unknown) => unknown {
  let count = 0;
  return function copy(value: unknown): unknown {
    count += 1;
    if (count > maxValues) throw new ProtocolError('a definition with too many values');
    if (Array.isArray(value)) return value.map(copy);
    if (typeof value !== 'object' || value === null) return value;
    const plain: Fields = {};
    for (const [key, field] of Object.entries(value)) if (key !== '__proto__') plain[key] = copy(field);
    return plain;
  };
}
