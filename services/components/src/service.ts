import type { Deps } from '@wellspring/runtime/deps';
import type { Service } from '@wellspring/runtime/service';
import { createComponentRoute } from './create-component.ts';
import { createFetchCode, type EgressGuard, type FetchCode } from './fetch-code.ts';
import { getComponentRoutes } from './get-component.ts';
import { registryRoutes } from './publish.ts';
import { resolveWorker } from './resolve.ts';
import { createLibrary, type Library } from './save.ts';

export interface ComponentsDeps extends Pick<Deps, 'store' | 'call' | 'clock'> {
  /** Guards the requests for component URLs. */
  egress: EgressGuard;
}

/** What the operations of this service share. */
export interface ComponentsContext {
  deps: ComponentsDeps;
  library: Library;
  fetchCode: FetchCode;
}

/** Saved components, their keys, and the registry. */
export function createComponentsService(deps: ComponentsDeps): Service {
  const context: ComponentsContext = {
    deps,
    library: createLibrary(deps),
    fetchCode: createFetchCode(deps.egress),
  };
  return {
    name: 'components',
    routes: [createComponentRoute(context), ...getComponentRoutes(context), ...registryRoutes(context)],
    workers: [resolveWorker(context)],
  };
}
