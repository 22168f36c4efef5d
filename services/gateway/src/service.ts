import type { RequestListener } from 'node:http';
import { endpoints } from '@wellspring/contract/endpoints/all';
import type { Deps } from '@wellspring/runtime/deps';
import type { Service } from '@wellspring/runtime/service';
import { createBlobs } from './blobs.ts';
import { createCors } from './cors.ts';
import { createDocsPage, documentRoutes } from './documents.ts';
import { createIdempotency } from './idempotency.ts';
import { createIngest } from './ingest.ts';
import { deadLetterRoutes } from './operator/dead-letters.ts';
import { operatorOrgRoutes } from './operator/orgs.ts';
import { operatorUserRoutes } from './operator/users.ts';
import { createOperatorApi, createPublicApi, type RequestListenerOf } from './public-api.ts';
import { userRoutes } from './users.ts';

/** The gateway: a service with the handlers of the two listeners. */
export interface Gateway extends Service {
  /** Endpoints of sources, the API, its documentation, blobs. */
  publicListener: RequestListener;
  /** The operator API. */
  operatorListener: RequestListener;
}

/** @param listenerOf the request listener of a service */
export function createGatewayService(deps: Deps, listenerOf: RequestListenerOf): Gateway {
  const declared = Object.values(endpoints);
  const ingest = createIngest(deps);
  const blobs = createBlobs(deps);
  const docs = createDocsPage();
  const cors = createCors(deps.config.corsOrigins);
  const idempotency = createIdempotency(deps);
  const publicApi = createPublicApi(deps, declared, listenerOf, idempotency);
  const operatorApi = createOperatorApi(deps, declared, listenerOf);
  return {
    name: 'gateway',
    routes: [
      ...userRoutes(deps),
      ...operatorUserRoutes(deps),
      ...operatorOrgRoutes(deps),
      ...deadLetterRoutes(deps),
      ...documentRoutes(),
    ],
    publicListener(req, res) {
      if (ingest(req, res) || docs(req, res) || blobs(req, res) || cors(req, res)) return;
      publicApi(req, res);
    },
    operatorListener: operatorApi,
    dispose: idempotency.close,
  };
}
