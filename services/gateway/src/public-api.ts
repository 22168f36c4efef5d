import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Endpoint, ServiceName } from '@wellspring/contract/endpoint';
import type { Principal } from '@wellspring/contract/principal';
import { newId } from '@wellspring/core/ids';
import { methodNotAllowed, notFound } from '@wellspring/core/problem';
import { PRINCIPAL_HEADER, signPrincipal } from '@wellspring/http/principal';
import { sendProblem } from '@wellspring/http/problem-response';
import type { Deps } from '@wellspring/runtime/deps';
import { createApiMetrics } from './api-metrics.ts';
import { createAuthenticator, operatorPrincipal } from './authenticate.ts';
import { createIdempotency } from './idempotency.ts';
import { createRateLimit } from './rate-limit.ts';
import { createRouteTable } from './route-table.ts';

/** Returns the request listener of a service: its router in this process, or a proxy. */
export type ServiceListener = (service: ServiceName) => RequestListener;

type ApiDeps = Pick<Deps, 'store' | 'pubsub' | 'clock' | 'log' | 'config' | 'seal' | 'metrics' | 'buckets'>;

/** Streams also have paths without the version. */
const UNVERSIONED = /^\/(sources|workflows)\/[^/]+\/sse\/?$/;

const pathOf = (req: IncomingMessage) => (req.url ?? '/').split('?', 1)[0]!;

/** The id of the response and its log lines; internal headers from the client are dropped. */
function begin(req: IncomingMessage, res: ServerResponse): string {
  const requestId = newId('req');
  for (const name of Object.keys(req.headers)) if (name.startsWith('x-wellspring-')) delete req.headers[name];
  req.headers['x-request-id'] = requestId;
  res.setHeader('x-request-id', requestId);
  return requestId;
}

/** The API below `/v1`: key, rate limit, idempotency, then the service of the endpoint. */
export function createPublicApi(deps: ApiDeps, endpoints: readonly Endpoint[], listenerOf: ServiceListener) {
  const { log, config, seal } = deps;
  const find = createRouteTable(endpoints.filter(({ listener }) => listener === 'public'));
  const authenticate = createAuthenticator(deps);
  const limit = createRateLimit('api', config.apiRate, deps.buckets);
  const idempotent = createIdempotency(deps);
  const signingKey = seal.keysFor('principal')[0]!;
  const measure = createApiMetrics(deps.metrics);

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const isFor = measure(res);
    if (UNVERSIONED.test(pathOf(req))) req.url = `/v1${req.url}`;
    const path = pathOf(req);
    if (!path.startsWith('/v1/') && path !== '/v1') throw notFound('page here');
    const found = find(req.method ?? 'GET', path.slice(3));
    if (found.kind === 'endpoint') isFor(found.endpoint);
    if (found.kind === 'endpoint' && !found.endpoint.authenticated)
      return void listenerOf(found.endpoint.service)(req, res);
    const principal = await authenticate(req.headers.authorization);
    await limit(principal.key_id);
    if (found.kind === 'method') throw methodNotAllowed(found.allow);
    if (found.kind === 'unknown') throw notFound('endpoint here');
    req.headers[PRINCIPAL_HEADER] = signPrincipal(principal, signingKey);
    await idempotent(req, res, principal.user_id, () => listenerOf(found.endpoint.service)(req, res));
  }

  return (req: IncomingMessage, res: ServerResponse): void => {
    const requestId = begin(req, res);
    handle(req, res).catch((error: unknown) => sendProblem(res, error, { requestId, log }));
  };
}

/** The operator API below `/admin/v1`. */
export function createOperatorApi(
  deps: ApiDeps,
  endpoints: readonly Endpoint[],
  listenerOf: ServiceListener,
) {
  const { log, config, seal } = deps;
  const find = createRouteTable(endpoints.filter(({ listener }) => listener === 'operator'));
  const signingKey = seal.keysFor('principal')[0]!;
  const measure = createApiMetrics(deps.metrics);

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const isFor = measure(res);
    const path = pathOf(req);
    if (!path.startsWith('/admin/v1/')) throw notFound('page here');
    const found = find(req.method ?? 'GET', path.slice('/admin/v1'.length));
    if (found.kind === 'endpoint') isFor(found.endpoint);
    if (found.kind === 'endpoint' && !found.endpoint.authenticated)
      return void listenerOf(found.endpoint.service)(req, res);
    const principal: Principal = operatorPrincipal(req.headers.authorization, config.adminKey);
    if (found.kind === 'method') throw methodNotAllowed(found.allow);
    if (found.kind === 'unknown') throw notFound('endpoint here');
    req.headers[PRINCIPAL_HEADER] = signPrincipal(principal, signingKey);
    listenerOf(found.endpoint.service)(req, res);
  }

  return (req: IncomingMessage, res: ServerResponse): void => {
    const requestId = begin(req, res);
    handle(req, res).catch((error: unknown) => sendProblem(res, error, { requestId, log }));
  };
}
