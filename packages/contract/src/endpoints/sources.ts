import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { Nothing, RunStarted, ServiceDb, Source } from '../resources.ts';
import {
  common,
  configuredProps,
  EXAMPLE_CODE,
  IDENTIFIER_NAMES,
  identifiers,
  optionalText,
  paging,
} from './parameters.ts';

const service = 'sources';
const one = { service, output: Source, envelope: 'single' } as const;

const ignoreHookErrors = {
  ignore_hook_errors: Type.Optional(
    Type.Boolean({ description: 'false: a deactivate hook that throws stops the operation; default true' }),
  ),
};

const configured = {
  configured_props: configuredProps('Values by prop name'),
  name: optionalText,
  concurrency: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 10,
      description: '2 to 10: that many runs at a time, without order',
    }),
  ),
};

export const listMySources = defineEndpoint({
  service,
  operationId: 'listMySources',
  method: 'GET',
  path: '/users/me/sources',
  summary: 'List your sources, newest first',
  description:
    'Cursors of page_info lead to the pages after and before. Sources of your organizations are listed under the organization, or with org_id.',
  input: Type.Object({ ...paging, ...common }),
  output: Source,
  envelope: 'page',
});

export const listOrgSources = defineEndpoint({
  service,
  operationId: 'listOrgSources',
  method: 'GET',
  path: '/orgs/{org_id}/sources',
  summary: 'List the sources of an organization, newest first',
  description: 'For members of the organization. Cursors of page_info lead to the pages after and before.',
  input: Type.Object({ ...paging, ...common }),
  output: Source,
  envelope: 'page',
  problems: [404],
});

export const createSource = defineEndpoint({
  ...one,
  operationId: 'createSource',
  method: 'POST',
  path: '/sources',
  summary: 'Deploy a component: runs its deploy and activate hooks',
  description:
    'Give component_id, component_code, key or component_url; of several, the first in this order counts. The source is active when its deploy and activate hooks have returned; if one throws, nothing is kept and the answer is a 400 with its message.',
  atLeastOne: IDENTIFIER_NAMES,
  example: {
    component_code: EXAMPLE_CODE,
    configured_props: { timer: { interval_seconds: 60 } },
    name: 'Orders',
  },
  input: Type.Object({ ...identifiers, ...configured, ...common }),
  problems: [403, 404, 409, 413, 415],
});

export const getSource = defineEndpoint({
  ...one,
  operationId: 'getSource',
  method: 'GET',
  path: '/sources/{id}',
  summary: 'Get a source',
  description: 'Secret props are shown as ********.',
  input: Type.Object(common),
  problems: [404],
});

export const updateSource = defineEndpoint({
  ...one,
  operationId: 'updateSource',
  method: 'PUT',
  path: '/sources/{id}',
  summary: 'Change code, props, name or state of a source; active is true unless given',
  description:
    'Without an identifier the code stays. A secret prop sent as ******** keeps its value. State, events and endpoints stay. If a hook of the new code throws, the source is as it was.',
  example: { configured_props: { timer: { cron: '0 * * * *' } }, active: true },
  input: Type.Object({
    ...identifiers,
    ...configured,
    active: Type.Optional(Type.Boolean({ description: 'Default true' })),
    ...ignoreHookErrors,
    ...common,
  }),
  query: ['ignore_hook_errors'],
  problems: [404, 409, 413, 415],
});

export const deleteSource = defineEndpoint({
  service,
  operationId: 'deleteSource',
  method: 'DELETE',
  path: '/sources/{id}',
  summary: 'Delete a source with its events, logs, store, subscriptions and endpoints',
  description: 'Runs its deactivate hook first. The running run ends, waiting runs are dropped.',
  input: Type.Object({ ...ignoreHookErrors, ...common }),
  output: Nothing,
  envelope: 'none',
  status: 204,
  problems: [404],
});

const db = { service, path: '/sources/{id}/db', problems: [404] } as const;

export const getSourceDb = defineEndpoint({
  ...db,
  operationId: 'getSourceDb',
  method: 'GET',
  summary: 'Read $service.db of a source',
  description: 'The values as the newest committed run left them.',
  input: Type.Object(common),
  output: ServiceDb,
  envelope: 'single',
});

export const putSourceDb = defineEndpoint({
  ...db,
  operationId: 'putSourceDb',
  method: 'PUT',
  summary: 'Replace $service.db of a source',
  description: 'Waits for the runs that were accepted before; later runs see the new values.',
  input: Type.Object({ data: ServiceDb, ...common }),
  example: { data: { cursor: 1001 } },
  output: ServiceDb,
  envelope: 'single',
});

export const deleteSourceDb = defineEndpoint({
  ...db,
  operationId: 'deleteSourceDb',
  method: 'DELETE',
  summary: 'Empty $service.db of a source',
  description: 'Waits for the runs that were accepted before; later runs find nothing.',
  input: Type.Object(common),
  output: Nothing,
  envelope: 'none',
  status: 204,
});

export const runSource = defineEndpoint({
  service,
  operationId: 'runSource',
  method: 'POST',
  path: '/sources/{id}/run',
  summary: 'Run a source once by hand',
  description: 'Queues a run with the given event, after the runs that wait already.',
  example: { event: { order: 1001 } },
  input: Type.Object({ event: Type.Optional(Type.Unknown({ description: 'What run gets' })), ...common }),
  output: RunStarted,
  envelope: 'single',
  status: 202,
  problems: [404, 409],
});
