import { createEgress } from '@wellspring/http/egress';
import type { Deps } from '@wellspring/runtime/deps';
import type { Service } from '@wellspring/runtime/service';
import { createComponentRoute } from './create-component.ts';
import { createFetchCode, type FetchCode } from './fetch-code.ts';
import { getComponentRoutes } from './get-component.ts';
import { registryRoutes } from './publish.ts';
import { resolveWorker } from './resolve.ts';
import { createLibrary, type Library } from './save.ts';

export type ComponentsDeps = Pick<Deps, 'store' | 'call' | 'clock' | 'config'>;

/** What the operations of this service share. */
export interface ComponentsContext {
  deps: ComponentsDeps;
  library: Library;
  fetchCode: FetchCode;
}

/** Saved components, their keys, and the registry. */
export function createComponentsService(deps: ComponentsDeps): Service {
  const egress = createEgress({ allowNetworks: deps.config.allowNetworks });
  const context: ComponentsContext = {
    deps,
    library: createLibrary(deps),
    fetchCode: createFetchCode(egress),
  };
  return {
    name: 'components',
    routes: [createComponentRoute(context), ...getComponentRoutes(context), ...registryRoutes(context)],
    workers: [resolveWorker(context)],
    dispose: () => egress.close(),
  };
}
