import Type from 'typebox';
import { defineEndpoint } from '../endpoint.ts';
import { Nothing, Run } from '../resources.ts';
import { common, paging } from './parameters.ts';

/** Runs of sources and workflows, as their logs tell. */

const service = 'events';

const input = Type.Object({
  state: Type.Optional(Type.Enum(['running', 'ok', 'failed', 'cancelled'], { description: 'Default: all' })),
  ...paging,
  ...common,
});

const list = { service, method: 'GET', output: Run, envelope: 'page', input, problems: [404] } as const;
const description =
  'Reaches the newest 100 runs and hooks of which there are logs. A run is listed as running when it has lasted for half a second.';

export const listSourceRuns = defineEndpoint({
  ...list,
  operationId: 'listSourceRuns',
  path: '/sources/{id}/runs',
  summary: 'List the newest runs of a source, newest first',
  description,
});

export const listWorkflowRuns = defineEndpoint({
  ...list,
  operationId: 'listWorkflowRuns',
  path: '/workflows/{id}/runs',
  summary: 'List the newest runs of a workflow, newest first',
  description,
});

export const getRun = defineEndpoint({
  service,
  operationId: 'getRun',
  method: 'GET',
  path: '/runs/{id}',
  summary: 'Get a run',
  description: 'Found as long as there are logs of it. A run that waits in the queue is unknown.',
  input: Type.Object(common),
  output: Run,
  envelope: 'single',
  problems: [404],
});

export const cancelRun = defineEndpoint({
  service,
  operationId: 'cancelRun',
  method: 'POST',
  path: '/runs/{id}/cancel',
  summary: 'End a run in progress',
  description:
    'Its process is killed. Events that it emitted before are kept, and $errors gets a record. A run that has ended is a 409.',
  input: Type.Object(common),
  output: Nothing,
  envelope: 'null',
  problems: [404, 409],
});
