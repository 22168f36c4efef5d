import type { Factories } from '@wellspring/runtime/run';
import { createComponentsService } from '@wellspring/service-components/service';
import { createDeliveryService } from '@wellspring/service-delivery/service';
import { createEventsService } from '@wellspring/service-events/service';
import { createGatewayService } from '@wellspring/service-gateway/service';
import { createRunnerService } from '@wellspring/service-runner/service';
import { createSourcesService } from '@wellspring/service-sources/service';
import { createSubscriptionsService } from '@wellspring/service-subscriptions/service';
import { createWebhooksService } from '@wellspring/service-webhooks/service';

/** Every service of the platform. */
export const factories: Factories = {
  gateway: (deps, { listenerOf }) => createGatewayService(deps, listenerOf),
  components: createComponentsService,
  sources: createSourcesService,
  subscriptions: createSubscriptionsService,
  webhooks: createWebhooksService,
  events: createEventsService,
  runner: async (deps, { openSandbox }) => createRunnerService({ ...deps, ...(await openSandbox()) }),
  delivery: createDeliveryService,
};
