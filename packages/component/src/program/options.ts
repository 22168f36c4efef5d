import type { OptionsAnswer, OptionsRequest, PropOption } from '@wellspring/contract/definition';
import { LIMITS } from '@wellspring/contract/limits';
import { type Fields, isObject } from '../fields.ts';
import { attributesOf } from './define.ts';
import { appInstance } from './instance.ts';

interface Source {
  /** An array or a method; undefined if the prop has no options. */
  options: unknown;
  /** The app whose propDefinition has the options; undefined for the component itself. */
  app: unknown;
  /** Inputs of the propDefinitions that lead to the prop, innermost first. */
  inputs: unknown[];
}

/** Where the options of a prop come from: those beside a propDefinition win. */
function sourceOf(prop: unknown): Source {
  if (!isObject(prop)) return { options: undefined, app: undefined, inputs: [] };
  if (prop.options !== undefined && prop.propDefinition === undefined)
    return { options: prop.options, app: undefined, inputs: [] };
  const [app, name, inputs] = Array.isArray(prop.propDefinition) ? prop.propDefinition : [];
  const definitions = isObject(app) ? app.propDefinitions : undefined;
  if (!isObject(definitions)) return { options: prop.options, app: undefined, inputs: [] };
  const inherited = sourceOf(definitions[name as string]);
  const all = [...inherited.inputs, inputs];
  if (prop.options !== undefined) return { options: prop.options, app: undefined, inputs: all };
  return { options: inherited.options, app: inherited.app ?? app, inputs: all };
}

/** The instance of the app prop with this app, or else of one with the same app name; only with an account. */
function instanceOf(app: Fields, props: Fields, self: Fields): Fields {
  const found = Object.entries(props)
    .filter(([, prop]) => isObject(prop) && attributesOf('', prop).type === 'app')
    .map(([name, prop]) => ({ prop, instance: self[name] as Fields, slug: (prop as Fields).app }))
    .filter(({ prop, slug }) => prop === app || slug === app.app)
    .sort((a, b) => Number(b.prop === app) - Number(a.prop === app))
    .map(({ instance }) => instance)
    .filter(isObject);
  const hasAccount = ({ $auth }: Fields) => isObject($auth) && Object.keys($auth).length > 0;
  return found.find(hasAccount) ?? found[0] ?? appInstance(app, {});
}

/** One page of the options of a prop. */
export async function optionsOf(
  name: string,
  props: Fields,
  self: Fields,
  { page, prevContext, query }: OptionsRequest,
): Promise<OptionsAnswer> {
  const prop = props[name];
  const { options, app, inputs } = sourceOf(prop);
  if (typeof options !== 'function') return readOptions(options);
  const argument: Fields = {};
  for (const given of inputs) {
    Object.assign(argument, typeof given === 'function' ? await given.call(self, self) : given);
  }
  Object.assign(argument, { page, prevContext });
  if (attributesOf(name, prop).useQuery === true && query !== undefined) argument.query = query;
  return readOptions(await options.call(isObject(app) ? instanceOf(app, props, self) : self, argument));
}

/** Options as an array, or with a context for the next page. @throws Error if they are neither */
function readOptions(answer: unknown): OptionsAnswer {
  const { options, context = null } = (
    isObject(answer) && !Array.isArray(answer) ? answer : { options: answer }
  ) as { options?: unknown; context?: unknown };
  if (options !== undefined && options !== null && !Array.isArray(options))
    throw new Error('The options have to be an array, or an object with options and context.');
  const list = ((options ?? []) as unknown[]).filter((one) => one !== undefined && one !== null);
  if (list.length > LIMITS.options)
    throw new Error(`The options method returned more than ${LIMITS.options} options.`);
  const read = JSON.parse(JSON.stringify({ options: list.map(readOption), context: context ?? null }));
  if (Buffer.byteLength(JSON.stringify(read)) > LIMITS.optionsBytes)
    throw new Error(`The options have more than ${LIMITS.optionsBytes / 1024} KB.`);
  return read as OptionsAnswer;
}

function readOption(option: unknown): PropOption {
  if (!isObject(option)) return { label: String(option), value: option };
  if (isObject(option.__lv)) return readOption(option.__lv);
  const { label, value = option } = option;
  return { label: String(label ?? (isObject(value) ? JSON.stringify(value) : value)), value };
}
