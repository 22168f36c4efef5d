import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { Nothing, Workflow } from '../resources.ts';
import { fields, paging } from './parameters.ts';

const operator = { listener: 'operator', service: 'sources' } as const;
const definition = Type.Unknown({
  description:
    '{name, trigger: {component, props} | {source_id} | {http: true}, steps: [{name, component, props}]}: component is a key, an id (sc_…) or code; values of props may hold {{steps.<name>.<path>}}',
});

/** In requests and in the document. */
const example = {
  name: 'Greet',
  trigger: { http: true },
  steps: [{ name: 'greet', component: 'greet_by_mail', props: { to: '{{steps.trigger.event.body.email}}' } }],
};

export const operatorCreateWorkflow = defineEndpoint({
  ...operator,
  operationId: 'operatorCreateWorkflow',
  method: 'POST',
  path: '/workflows',
  summary: 'Deploy a workflow, with the source that triggers it',
  description:
    'An error names the field at fault, as definition.steps[0].props.n. The public API shows the source as any other, and the events of the workflow.',
  example: { owner_id: 'u_9Bn3kLsV0a', definition: example },
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
  description: 'Cursors of page_info lead to the pages after and before.',
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
  description: 'With its definition; values of secret props are masked.',
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
  description: 'A run in progress ends with the former definition. An update that fails changes nothing.',
  example: { definition: example },
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
  description: 'A source that was given by source_id stays.',
  input: Type.Object(fields),
  output: Nothing,
  envelope: 'none',
  status: 204,
  problems: [404],
});
