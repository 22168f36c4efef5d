import { endpointUrl } from '@wellspring/contract/endpoint-url';
import {
  operatorCreateWorkflow,
  operatorDeleteWorkflow,
  operatorGetWorkflow,
  operatorListWorkflows,
  operatorUpdateWorkflow,
} from '@wellspring/contract/endpoints/workflows';
import { type Route, route } from '@wellspring/http/bind';
import { listLarge } from '@wellspring/http/paging';
import { type WorkflowRow, workflowDeployments, workflows } from '@wellspring/store/collections/workflows';
import type { SourcesContext } from '../context.ts';
import type { Workflows } from './workflows.ts';

/** Workflows as the operator manages them; the public API only reads their events. */
export function workflowRoutes({ deps, interfaces }: SourcesContext, operations: Workflows): Route[] {
  const rows = deps.store.collection(workflows);

  async function presentWorkflow(row: WorkflowRow) {
    const { id, owner_id, name, source_id, deployment_id, created_at, updated_at } = row;
    const [deployment, keys] = await Promise.all([
      deps.store.collection(workflowDeployments).get(deployment_id),
      interfaces.keys(source_id),
    ]);
    const [key] = Object.values(keys);
    return {
      id,
      owner_id,
      name,
      definition: JSON.parse(deployment?.definition ?? '{}') as Record<string, unknown>,
      deployment_id,
      trigger: { source_id, endpoint_url: key === undefined ? null : endpointUrl(deps.config, key) },
      created_at,
      updated_at,
    };
  }

  return [
    route(operatorCreateWorkflow, async ({ input }) =>
      presentWorkflow(await operations.create(input.owner_id, input.definition)),
    ),
    route(operatorListWorkflows, async ({ input, hold, signal }) => {
      const { owner_id } = input;
      const shown = { in: ['live', 'updating'] as const };
      return listLarge(rows, { status: shown, ...(owner_id !== undefined && { owner_id }) }, input, {
        hold,
        signal,
        read: presentWorkflow,
        bytesOf: ({ definition }) => JSON.stringify(definition).length,
      });
    }),
    route(operatorGetWorkflow, async ({ params }) => presentWorkflow(await operations.find(params.id))),
    route(operatorUpdateWorkflow, async ({ params, input }) =>
      presentWorkflow(await operations.replace(params.id, input.definition)),
    ),
    route(operatorDeleteWorkflow, ({ params }) => operations.remove(params.id)),
  ];
}
