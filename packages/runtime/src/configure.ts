import { MASK, validateValues } from '@wellspring/component/values';
import { CALLS, CONFIGURE_DEADLINE_MS, type ConfigureCall, configuredFor } from '@wellspring/contract/calls';
import type {
  Bundle,
  Definition,
  OptionsAnswer,
  OptionsRequest,
  PropDescriptor,
} from '@wellspring/contract/definition';
import type { Principal } from '@wellspring/contract/principal';
import type { ComponentRow } from '@wellspring/store/collections/components';
import { createAccounts } from './accounts.ts';
import type { Deps } from './deps.ts';

type Values = Record<string, unknown>;

/** A component and the values given for its props. */
export interface Configuration {
  component: Pick<ComponentRow, 'bundle_id' | 'definition'> & {
    /** Absent: the bundle is in the store. */
    bundle?: Bundle;
  };
  /** Who configures, and who owns what will be deployed. */
  principal: Principal;
  ownerId: string;
  given: Values;
  /** Values before an update, with secrets in clear: `given` is merged into them by prop name. */
  previous?: Values;
  /** Props whose values each run determines: neither required nor validated. */
  deferred?: ReadonlySet<string>;
}

/** Configures components: validates values, and asks the component for dynamic props and options. */
export interface Configurator {
  /**
   * The values of a deployment, with secrets in clear, and the definition with the props of additionalProps.
   * @throws Problem 400 that names the prop, or with the message of the component
   */
  deploy(configuration: Configuration): Promise<{ definition: Definition; values: Values }>;
  /** All props at present; values may be missing. @throws Problem 400 */
  props(configuration: Configuration): Promise<PropDescriptor[]>;
  /** A page of options of a prop; values may be missing. @throws Problem 400 */
  options(configuration: Configuration, prop: string, request: OptionsRequest): Promise<OptionsAnswer>;
}

export function createConfigurator(deps: Pick<Deps, 'store' | 'call' | 'seal' | 'config'>): Configurator {
  const { call, config } = deps;
  const accounts = createAccounts(deps);

  const validate = (
    props: readonly PropDescriptor[],
    { given, previous, deferred }: Configuration,
    partial: boolean,
  ) =>
    validateValues(deferred ? props.filter(({ name }) => !deferred.has(name)) : props, given, {
      ...(previous === undefined ? {} : { previous }),
      partial,
      minIntervalSeconds: config.minIntervalSeconds,
    });

  /** Asks the code, with the values known so far: validated ones of `props`, and others as they were given. */
  async function ask(
    configuration: Configuration,
    props: PropDescriptor[],
    what: ConfigureCall['message']['call'],
  ): Promise<ConfigureCall['answer']> {
    const values = await known(configuration, props);
    const message: ConfigureCall['message'] = {
      ...undeployed(deps, configuration, props, values),
      call: what,
    };
    return (await call.request(CALLS.configure, message, {
      deadlineMs: CONFIGURE_DEADLINE_MS,
    })) as ConfigureCall['answer'];
  }

  async function known(configuration: Configuration, props: PropDescriptor[]): Promise<Values> {
    const { component, principal, ownerId } = configuration;
    const values = validate(props, configuration, true);
    await accounts.check(principal, ownerId, props, values);
    return component.definition.additional_props ? { ...dynamicValues(configuration), ...values } : values;
  }

  async function propsOf(configuration: Configuration): Promise<PropDescriptor[]> {
    const { props, additional_props } = configuration.component.definition;
    if (!additional_props || !props.some(({ reloadProps }) => reloadProps)) return props;
    const values = validate(props, configuration, true);
    const isChosen = ({ name, reloadProps }: PropDescriptor) => reloadProps && values[name] !== undefined;
    if (!props.some(isChosen)) return props;
    return (await ask(configuration, props, { kind: 'props' })).props ?? props;
  }

  return {
    async deploy(configuration) {
      const { component, principal, ownerId } = configuration;
      const props = await propsOf(configuration);
      const values = validate(props, configuration, false);
      await accounts.check(principal, ownerId, props, values);
      return { definition: { ...component.definition, props }, values };
    },
    props: propsOf,
    async options(configuration, prop, request) {
      const { props } = configuration.component.definition;
      // The options of a dynamic prop may need the account of a dynamic app.
      const needed = props.some(({ name }) => name === prop) ? props : await propsOf(configuration);
      const answer = await ask(configuration, needed, { kind: 'options', prop, ...request });
      return answer.options ?? { options: [], context: null };
    },
  };
}

/** A component with values, as calls of the runner take it. */
export const undeployed = (
  { seal }: Pick<Deps, 'seal'>,
  { component, ownerId }: Configuration,
  props: PropDescriptor[],
  values: Values,
): Omit<ConfigureCall['message'], 'call'> => ({
  owner_id: ownerId,
  bundle_id: component.bundle_id,
  ...(component.bundle ? { bundle: component.bundle } : {}),
  props,
  values: seal.seal(JSON.stringify(values), configuredFor(ownerId)),
});

/** Values of props that the definition does not have. */
function dynamicValues({ component, given, previous = {}, deferred }: Configuration): Values {
  const values: Values = {};
  const known = new Set([
    ...component.definition.props.map(({ name }) => name),
    ...(deferred ?? []),
    '__proto__',
  ]);
  for (const name of new Set([...Object.keys(previous), ...Object.keys(given)])) {
    if (known.has(name)) continue;
    const source = Object.hasOwn(given, name) && given[name] !== MASK ? given : previous;
    const value = Object.hasOwn(source, name) ? source[name] : undefined;
    if (value !== undefined && value !== null) values[name] = value;
  }
  return values;
}
