import { createQuotas } from '@wellspring/runtime/quotas';
import type { Service } from '@wellspring/runtime/service';
import type { SourcesContext, SourcesDeps } from './context.ts';
import { createSourceRoute } from './create-source.ts';
import { createRemoveSource, deleteSourceRoute } from './delete-source.ts';
import { createInterfaces } from './interfaces.ts';
import { createKeyedQueue } from './one-at-a-time.ts';
import { createPresenter } from './present.ts';
import { readSourceRoutes } from './read-sources.ts';
import { recoverTransitionsWorker } from './recover-transitions.ts';
import { runSourceRoute } from './run-source.ts';
import { schedulerWorker } from './scheduler.ts';
import { updateSourceRoute } from './update-source.ts';

/** Sources: deployment, hooks, and timers. */
export function createSourcesService(deps: SourcesDeps): Service {
  const interfaces = createInterfaces(deps);
  const context: SourcesContext = {
    deps,
    interfaces,
    present: createPresenter(deps, interfaces),
    removeSource: createRemoveSource(deps),
    oneAtATime: createKeyedQueue(),
    quotas: createQuotas(deps),
  };
  return {
    name: 'sources',
    routes: [
      createSourceRoute(context),
      updateSourceRoute(context),
      deleteSourceRoute(context),
      runSourceRoute(context),
      ...readSourceRoutes(context),
    ],
    workers: [schedulerWorker(deps), recoverTransitionsWorker(context)],
  };
}
