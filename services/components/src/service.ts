import { createEgress } from '@wellspring/http/egress';
import type { Service } from '@wellspring/runtime/service';
import { configureRoutes } from './configure.ts';
import type { ComponentsContext, ComponentsDeps } from './context.ts';
import { createComponentRoute } from './create-component.ts';
import { createFetchCode } from './fetch-code.ts';
import { getComponentRoutes } from './get-component.ts';
import { ownComponentRoutes } from './own-components.ts';
import { registryRoutes } from './publish.ts';
import { resolveWorker } from './resolve.ts';
import { createLibrary } from './save.ts';
import { testComponentRoute } from './test-component.ts';

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
    routes: [
      createComponentRoute(context),
      ...getComponentRoutes(context),
      ...ownComponentRoutes(context),
      ...registryRoutes(context),
      ...configureRoutes(context),
      testComponentRoute(context),
    ],
    workers: [resolveWorker(context)],
    dispose: () => egress.close(),
  };
}
