import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { Component, ConfigurableProps, Nothing, PropOptions, TestRun } from '../resources.ts';
import {
  common,
  configuredProps,
  EXAMPLE_CODE,
  IDENTIFIER_NAMES,
  identifiers,
  paging,
} from './parameters.ts';

const service = 'components';
const one = { service, output: Component, envelope: 'single' } as const;

export const createComponent = defineEndpoint({
  ...one,
  operationId: 'createComponent',
  method: 'POST',
  path: '/components',
  summary: 'Save a component from its code or its URL; it is published under its key for its owner',
  description:
    'Give component_code or component_url; with both, the code counts. The code is compiled, its packages are installed, and its definition is read in a sandbox. The same code saved again by the same owner gives the same component.',
  atLeastOne: ['component_code', 'component_url'],
  example: { component_code: EXAMPLE_CODE },
  input: Type.Object({
    component_code: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    component_url: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    ...common,
  }),
  problems: [403, 409, 413, 415],
});

export const getComponent = defineEndpoint({
  ...one,
  operationId: 'getComponent',
  method: 'GET',
  path: '/components/{id}',
  summary: 'Get a component by its id, its key, key@version or key@range',
  description: 'An id finds components of your own and of the registry; a key finds your own first.',
  input: Type.Object(common),
  problems: [404],
});

export const getRegistryComponent = defineEndpoint({
  ...one,
  operationId: 'getRegistryComponent',
  method: 'GET',
  path: '/components/registry/{key}',
  summary:
    'Get the newest version of a component of the registry, the one of key@version, or the newest in key@range',
  description: 'The registry is shared by everybody; the operator publishes to it.',
  input: Type.Object(common),
  problems: [404],
});

/** A call about a component that is not deployed. */
const undeployed = {
  service,
  method: 'POST',
  atLeastOne: IDENTIFIER_NAMES,
  envelope: 'single',
  problems: [403, 404, 413, 415],
} as const;
const given = { configured_props: configuredProps('Values chosen so far, by prop name') };

export const configureComponent = defineEndpoint({
  ...undeployed,
  operationId: 'configureComponent',
  changesNothing: true,
  path: '/components/configure',
  summary: 'Get a page of the options of a prop; its options method runs with the values chosen so far',
  description:
    'Give component_id, component_code, key or component_url; of several, the first in this order counts. The method runs for at most 30 seconds in a sandbox of its own; nothing is stored. Fixed options are returned too.',
  example: { key: 'github-new-issue', prop_name: 'repo', configured_props: { owner: 'octocat' }, page: 0 },
  input: Type.Object({
    ...identifiers,
    prop_name: Type.String(),
    ...given,
    page: Type.Optional(Type.Integer({ minimum: 0, description: 'Default 0' })),
    prev_context: Type.Optional(
      Type.Unknown({ description: 'The context of the page before; absent for the first page' }),
    ),
    query: Type.Optional(
      Type.Union([
        Type.String({ description: 'What the user searches for; for props with useQuery' }),
        Type.Null(),
      ]),
    ),
    ...common,
  }),
  output: PropOptions,
});

export const listComponentProps = defineEndpoint({
  ...undeployed,
  operationId: 'listComponentProps',
  changesNothing: true,
  path: '/components/props',
  summary: 'Get the props of a component, those that additionalProps adds for the values included',
  description:
    'Give component_id, component_code, key or component_url; of several, the first in this order counts. additionalProps is called if a prop with reloadProps has a value; it runs for at most 30 seconds, and nothing is stored.',
  example: { key: 'github-new-issue', configured_props: { mode: 'webhook' } },
  input: Type.Object({ ...identifiers, ...given, ...common }),
  output: ConfigurableProps,
});

export const testComponent = defineEndpoint({
  ...undeployed,
  operationId: 'testComponent',
  changesNothing: true,
  path: '/components/test',
  summary: 'Run a component once without deploying it',
  description:
    'Give component_id, component_code, key or component_url; of several, the first in this order counts. It runs with an empty $service.db in a sandbox of its own; nothing is stored, and nothing is emitted to listeners. It counts as an invocation. Of an action, event is steps.trigger.event, and requests of $.send are shown, not made. An error of the component is part of the answer.',
  example: { component_code: EXAMPLE_CODE, event: { timestamp: 1606370816 } },
  input: Type.Object({
    ...identifiers,
    configured_props: configuredProps('Values by prop name'),
    event: Type.Optional(
      Type.Unknown({
        description:
          'Argument of run, or trigger event of an action; default: a tick of the timer, an empty request or {}',
      }),
    ),
    ...common,
  }),
  output: TestRun,
});

const page = { service, output: Component, envelope: 'page', method: 'GET' } as const;

export const listMyComponents = defineEndpoint({
  ...page,
  operationId: 'listMyComponents',
  path: '/users/me/components',
  summary: 'List your components, newest first',
  description:
    'Those that were given to a source too. Cursors of page_info lead to the pages after and before. Components of your organizations are listed under the organization, or with org_id.',
  input: Type.Object({ ...paging, ...common }),
});

export const listOrgComponents = defineEndpoint({
  ...page,
  operationId: 'listOrgComponents',
  path: '/orgs/{org_id}/components',
  summary: 'List the components of an organization, newest first',
  description: 'For members of the organization. Cursors of page_info lead to the pages after and before.',
  input: Type.Object({ ...paging, ...common }),
  problems: [404],
});

export const deleteComponent = defineEndpoint({
  service,
  operationId: 'deleteComponent',
  method: 'DELETE',
  path: '/components/{id}',
  summary: 'Delete a component by its id',
  description:
    'Its key then names the component that was saved before under it. While sources or workflows use the component, the answer is a 409 that lists them as sources and workflows.',
  input: Type.Object(common),
  output: Nothing,
  envelope: 'none',
  status: 204,
  problems: [404, 409],
});
