import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { Nothing, Workflow } from '../resources.ts';
import { fields, paging } from './parameters.ts';

const operator = { listener: 'operator', service: 'sources' } as const;
const definition = Type.Unknown({
  description:
    '{name, trigger: {component, props} | {source_id} | {http: true}, steps: [{name, component, props}]}: component is a key, an id (sc_…) or code; values of props may hold {{steps.<name>.<path>}}',
});

export const operatorCreateWorkflow = defineEndpoint({
  ...operator,
  operationId: 'operatorCreateWorkflow',
  method: 'POST',
  path: '/workflows',
  summary: 'Deploy a workflow, with the source that triggers it',
  input: Type.Object({
    owner_id: Type.String({ description: 'The user or organization it will belong to' }),
    definition,
    ...fields,
  }),
  output: Workflow,
  envelope: 'single',
  problems: [404],
});

export const operatorListWorkflows = defineEndpoint({
  ...operator,
  operationId: 'operatorListWorkflows',
  method: 'GET',
  path: '/workflows',
  summary: 'List workflows, newest first',
  input: Type.Object({
    owner_id: Type.Optional(Type.String({ description: 'Only those of this user or organization' })),
    ...paging,
    ...fields,
  }),
  output: Workflow,
  envelope: 'page',
});

export const operatorGetWorkflow = defineEndpoint({
  ...operator,
  operationId: 'operatorGetWorkflow',
  method: 'GET',
  path: '/workflows/{id}',
  summary: 'Read a workflow',
  input: Type.Object(fields),
  output: Workflow,
  envelope: 'single',
  problems: [404],
});

export const operatorUpdateWorkflow = defineEndpoint({
  ...operator,
  operationId: 'operatorUpdateWorkflow',
  method: 'PUT',
  path: '/workflows/{id}',
  summary:
    'Replace the definition of a workflow. Its source, and so its endpoint, stays if the trigger is the same',
  input: Type.Object({ definition, ...fields }),
  output: Workflow,
  envelope: 'single',
  problems: [404, 409],
});

export const operatorDeleteWorkflow = defineEndpoint({
  ...operator,
  operationId: 'operatorDeleteWorkflow',
  method: 'DELETE',
  path: '/workflows/{id}',
  summary: 'Delete a workflow, its events, and the source that it made',
  input: Type.Object(fields),
  output: Nothing,
  envelope: 'none',
  status: 204,
  problems: [404],
});
