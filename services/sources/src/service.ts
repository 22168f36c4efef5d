import { createConfigurator } from '@wellspring/runtime/configure';
import { createQuotas } from '@wellspring/runtime/quotas';
import { removeEmitter } from '@wellspring/runtime/remove-emitter';
import type { Service } from '@wellspring/runtime/service';
import { accountRoutes } from './accounts.ts';
import { createAttempts } from './attempts.ts';
import type { SourcesContext, SourcesDeps } from './context.ts';
import { createSourceRoute } from './create-source.ts';
import { deleteSourceRoute } from './delete-source.ts';
import { createInterfaces } from './interfaces.ts';
import { createKeyedQueue } from './one-at-a-time.ts';
import { createPresentSource } from './present.ts';
import { readSourceRoutes } from './read-sources.ts';
import { recoverTransitionsWorker } from './recover-transitions.ts';
import { runSourceRoute } from './run-source.ts';
import { schedulerWorker } from './scheduler.ts';
import { sourceDbRoutes } from './source-db.ts';
import { updateSourceRoute } from './update-source.ts';
import { recoverWorkflowsWorker } from './workflows/recover.ts';
import { workflowRoutes } from './workflows/routes.ts';
import { createWorkflows } from './workflows/workflows.ts';

/** Sources: deployment, hooks, and timers; and workflows, which make sources for their triggers. */
export function createSourcesService(deps: SourcesDeps): Service {
  const interfaces = createInterfaces(deps);
  const context: SourcesContext = {
    deps,
    interfaces,
    presentSource: createPresentSource(deps, interfaces),
    removeEmitter: (id) => removeEmitter(deps, id),
    oneAtATime: createKeyedQueue(),
    attempts: createAttempts(),
    configurator: createConfigurator(deps),
    quotas: createQuotas(deps),
  };
  const workflows = createWorkflows(context);
  return {
    name: 'sources',
    routes: [
      createSourceRoute(context),
      updateSourceRoute(context),
      deleteSourceRoute(context),
      runSourceRoute(context),
      ...readSourceRoutes(context),
      ...workflowRoutes(context, workflows),
      ...accountRoutes(context),
      ...sourceDbRoutes(deps),
    ],
    workers: [
      schedulerWorker(deps),
      recoverTransitionsWorker(context),
      recoverWorkflowsWorker(context, workflows),
    ],
  };
}
