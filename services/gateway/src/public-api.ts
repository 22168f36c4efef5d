import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { Endpoint, Envelope, ServiceName } from '@wellspring/contract/endpoint';
import { LIMITS } from '@wellspring/contract/limits';
import type { Principal } from '@wellspring/contract/principal';
import { createHold, type Hold } from '@wellspring/core/byte-budget';
import { createFairPermits } from '@wellspring/core/fair-permits';
import { newId } from '@wellspring/core/ids';
import { methodNotAllowed, notFound, unavailable } from '@wellspring/core/problem';
import { readPermitted } from '@wellspring/http/bind';
import { onceClosed } from '@wellspring/http/once-closed';
import { pathOf } from '@wellspring/http/path-of';
import { PRINCIPAL_HEADER, signPrincipal } from '@wellspring/http/principal';
import { sendProblem } from '@wellspring/http/problem-response';
import { readBody } from '@wellspring/http/read-body';
import type { Deps } from '@wellspring/runtime/deps';
import { createApiMetrics } from './api-metrics.ts';
import { createAuthenticator, operatorPrincipal } from './authenticate.ts';
import type { Idempotency } from './idempotency.ts';
import { createRateLimit } from './rate-limit.ts';
import { createRouteTable } from './route-table.ts';

/** Returns the request listener of a service: its router if it runs in this process, or else a proxy. */
export type RequestListenerOf = (service: ServiceName) => RequestListener;

type ApiDeps = Pick<
  Deps,
  'store' | 'pubsub' | 'clock' | 'log' | 'config' | 'seal' | 'metrics' | 'buckets' | 'memory'
>;

interface Api<P extends Principal> {
  /** Prefix of its paths. */
  root: '/v1' | '/admin/v1';
  endpoints: readonly Endpoint[];
  /** @throws Problem 401, or 429 beyond the rate limit */
  authenticate(req: IncomingMessage): Promise<P> | P;
  /** Passes the authenticated request to the service. */
  pass(
    req: IncomingMessage,
    res: ServerResponse,
    principal: P,
    to: { service: RequestListener; endpoint: Endpoint },
  ): Promise<void> | void;
}

const LISTS: ReadonlySet<Envelope> = new Set(['list', 'page']);
/** Lists that are read at the same time. */
const MAX_LISTS = 64;
const MAX_LISTS_PER_USER = 2;
/** Memory of a request that waits for its turn. */
const WAITING_BYTES = 16 * 1024;
/** Bytes of an answer that are kept for repetitions of a call that changes nothing: 5 MB a call would fill the disk. */
const MAX_KEPT = 64 * 1024;

/** Event streams are also found without the version. */
const UNVERSIONED = /^\/(sources|workflows)\/[^/]+\/sse\/?$/;

/** Of the channels `$errors` and `$logs` in a path. */
const ENCODED_DOLLAR = /\/%24(?=(?:errors|logs)\/)/;

/** Removes internal headers that a client has sent, and replaces its request id by a new one. @returns that id */
function resetHeaders(req: IncomingMessage, res: ServerResponse): string {
  const requestId = newId('req');
  for (const name of Object.keys(req.headers)) if (name.startsWith('x-wellspring-')) delete req.headers[name];
  req.headers['x-request-id'] = requestId;
  res.setHeader('x-request-id', requestId);
  return requestId;
}

/** Calls `over` once the request was answered. It may be answered after its client has left: a POST goes on. */
function onceAnswered(res: ServerResponse, over: () => void): void {
  onceClosed(res, () => {
    if (res.headersSent) return over();
    const { end } = res;
    res.end = ((...args: Parameters<typeof end>) => {
      over();
      return end.apply(res, args);
    }) as typeof res.end;
  });
}

/** Calls `then` when the answer begins, however slowly its client reads it, or the client has left. */
function onceServed(res: ServerResponse, then: () => void): void {
  const { writeHead } = res;
  res.writeHead = ((...args: Parameters<typeof writeHead>) => {
    then();
    return writeHead.apply(res, args);
  }) as typeof writeHead;
  onceClosed(res, then);
}

/** Unknown paths and methods below the root are told only to an authenticated client. */
function createApi<P extends Principal>(
  { log, seal, metrics }: ApiDeps,
  { root, endpoints, authenticate, pass }: Api<P>,
  listenerOf: RequestListenerOf,
): (req: IncomingMessage, res: ServerResponse) => void {
  const find = createRouteTable(endpoints);
  const newestKey = seal.keysFor('principal')[0]!;
  const measure = createApiMetrics(metrics);

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const setEndpoint = measure(res);
    if (root === '/v1' && UNVERSIONED.test(pathOf(req))) req.url = `/v1${req.url}`;
    const encoded = pathOf(req);
    const path = encoded.replace(ENCODED_DOLLAR, () => '/$');
    req.url = path + (req.url ?? encoded).slice(encoded.length);
    if (path !== root && !path.startsWith(`${root}/`)) throw notFound('page');
    const found = find(req.method ?? 'GET', path.slice(root.length));
    if (found.kind === 'endpoint') {
      setEndpoint(found.endpoint);
      if (!found.endpoint.authenticated) return listenerOf(found.endpoint.service)(req, res);
    }
    const principal = await authenticate(req);
    if (found.kind === 'method') throw methodNotAllowed(found.allow);
    if (found.kind === 'unknown') throw notFound('endpoint');
    req.headers[PRINCIPAL_HEADER] = signPrincipal(principal, newestKey);
    const service = listenerOf(found.endpoint.service);
    await pass(req, res, principal, { service, endpoint: found.endpoint });
  }

  return (req, res) => {
    const requestId = resetHeaders(req, res);
    handle(req, res).catch((error: unknown) => sendProblem(res, error, { requestId, log }));
  };
}

/** The API below `/v1`: API key, rate limit per key, idempotency per user. */
export function createPublicApi(
  deps: ApiDeps,
  endpoints: readonly Endpoint[],
  listenerOf: RequestListenerOf,
  idempotency: Pick<Idempotency, 'handle'>,
) {
  const authenticate = createAuthenticator(deps);
  const limit = createRateLimit('api', deps.config.apiRate, deps.buckets);
  const lists = createFairPermits({ total: MAX_LISTS, maxPerOwner: () => MAX_LISTS_PER_USER });

  /** Reads the body within the memory of the API, for all that read it again. @throws BodyTooLarge, NoRoomForBody */
  async function receive(req: IncomingMessage, res: ServerResponse, hold: Hold): Promise<void> {
    if (req.method === 'GET' || req.method === 'HEAD') return;
    onceAnswered(res, hold.release);
    await readBody(req, LIMITS.apiBody, hold);
  }

  /** Waits for a permit, within the memory of the API. @throws Problem 503 */
  async function waitForList(res: ServerResponse, userId: string, hold: Hold): Promise<() => void> {
    if (!hold.take(WAITING_BYTES)) throw unavailable();
    const left = new AbortController();
    onceClosed(res, () => left.abort(unavailable()));
    return lists.acquire(userId, left.signal).finally(hold.release);
  }

  /** A list takes as long as many other requests, so a user reads few at a time. @throws Problem 503 */
  async function admitList(res: ServerResponse, userId: string, hold: Hold): Promise<void> {
    const release = lists.tryAcquire(userId) ?? (await waitForList(res, userId, hold));
    // Otherwise one list may follow the other without a turn of the event loop between them.
    onceServed(res, () => void setImmediate(release));
  }

  const api: Api<Extract<Principal, { kind: 'user' }>> = {
    root: '/v1',
    endpoints: endpoints.filter(({ listener }) => listener === 'public'),
    async authenticate({ headers }) {
      const principal = await authenticate(headers.authorization);
      await limit(principal.key_id);
      return principal;
    },
    async pass(req, res, principal, { service, endpoint }) {
      const { user_id } = principal;
      const hold = createHold(deps.memory.api, user_id);
      await receive(req, res, hold);
      if (LISTS.has(endpoint.envelope)) await admitList(res, user_id, hold);
      const caller = {
        userId: user_id,
        hold,
        ...(endpoint.changesNothing && { maxKept: MAX_KEPT }),
        async permit(signal: AbortSignal) {
          await readPermitted(endpoint, req, { principal, hold, signal });
        },
      };
      await idempotency.handle(req, res, caller, () => service(req, res));
    },
  };
  return createApi(deps, api, listenerOf);
}

/** The API of the operator below `/admin/v1`, with the operator's key and without limits. */
export function createOperatorApi(
  deps: ApiDeps,
  endpoints: readonly Endpoint[],
  listenerOf: RequestListenerOf,
) {
  const api: Api<Principal> = {
    root: '/admin/v1',
    endpoints: endpoints.filter(({ listener }) => listener === 'operator'),
    authenticate: ({ headers }) => operatorPrincipal(headers.authorization, deps.config.adminKey),
    pass: (req, res, _principal, { service }) => service(req, res),
  };
  return createApi(deps, api, listenerOf);
}
