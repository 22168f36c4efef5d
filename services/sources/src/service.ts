import type { Deps } from '@wellspring/runtime/deps';
import type { Service } from '@wellspring/runtime/service';
import { createSourceRoute } from './create-source.ts';
import { createRemoveSource, deleteSourceRoute } from './delete-source.ts';
import { createInterfaces, type Interfaces } from './interfaces.ts';
import { createKeyedQueue, type KeyedQueue } from './one-at-a-time.ts';
import { createPresenter, type Present } from './present.ts';
import { readSourceRoutes } from './read-sources.ts';
import { recoverTransitionsWorker } from './recover-transitions.ts';
import { runSourceRoute } from './run-source.ts';
import { schedulerWorker } from './scheduler.ts';
import { updateSourceRoute } from './update-source.ts';

export type SourcesDeps = Pick<
  Deps,
  'store' | 'queue' | 'pubsub' | 'call' | 'clock' | 'log' | 'seal' | 'config'
>;

/** What the operations of this service share. */
export interface SourcesContext {
  deps: SourcesDeps;
  interfaces: Interfaces;
  present: Present;
  removeSource(sourceId: string): Promise<void>;
  /** Operations that change a source follow one another. */
  oneAtATime: KeyedQueue;
}

/** Sources: their deployment, their life, and the timers that run them. */
export function createSourcesService(deps: SourcesDeps): Service {
  const interfaces = createInterfaces(deps);
  const context: SourcesContext = {
    deps,
    interfaces,
    present: createPresenter(deps, interfaces),
    removeSource: createRemoveSource(deps),
    oneAtATime: createKeyedQueue(),
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
