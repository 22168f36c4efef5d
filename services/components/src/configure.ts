import { configureComponent, listComponentProps } from '@wellspring/contract/endpoints/components';
import type { Principal } from '@wellspring/contract/principal';
import type { Hold } from '@wellspring/core/byte-budget';
import { invalidParameter } from '@wellspring/core/problem';
import { type Route, route } from '@wellspring/http/bind';
import { ownerFor } from '@wellspring/http/principal';
import { type Configuration, createConfigurator } from '@wellspring/runtime/configure';
import type { ComponentsContext } from './context.ts';
import { resolveUnsaved } from './resolve.ts';

interface ConfigureInput {
  org_id?: string | undefined;
  configured_props?: Record<string, unknown> | undefined;
  component_id?: unknown;
  component_code?: unknown;
  key?: unknown;
  component_url?: unknown;
}

/** Props and options of a component that is being configured. Nothing is deployed. */
export function configureRoutes(context: ComponentsContext): Route[] {
  const configurator = createConfigurator(context.deps);
  return [
    route(listComponentProps, async ({ input, principal, hold }) => ({
      configurable_props: await configurator.props(await configurationOf(context, principal, input, hold)),
    })),
    route(configureComponent, async ({ input, principal, hold }) => {
      const configuration = await configurationOf(context, principal, input, hold);
      const { prop_name, page = 0, prev_context, query } = input;
      const { props, additional_props } = configuration.component.definition;
      const prop = props.find(({ name }) => name === prop_name);
      if (!prop && !additional_props)
        throw invalidParameter('prop_name', `The component has no prop ${prop_name.slice(0, 256)}.`);
      return configurator.options(configuration, prop_name, {
        page,
        prevContext: prev_context ?? {},
        ...(query == null ? {} : { query }),
      });
    }),
  ];
}

/** The component of a request, and the values chosen so far. @throws Problem 400, 403, 404 */
export async function configurationOf(
  context: ComponentsContext,
  principal: Principal,
  { org_id, configured_props = {}, ...identifiers }: ConfigureInput,
  hold: Hold,
): Promise<Configuration> {
  const { owner_id } = ownerFor(principal, org_id);
  const reader_ids = principal.kind === 'user' ? [principal.user_id, ...principal.org_ids] : [];
  const component = await resolveUnsaved(context, { owner_id, reader_ids, ...identifiers }, hold);
  return { component, principal, ownerId: owner_id, given: configured_props };
}
