import type { Endpoint, InputOf, OutputOf, ParamsOf } from '@wellspring/contract/endpoint';
import { LIMITS } from '@wellspring/contract/limits';
import type { Principal } from '@wellspring/contract/principal';
import { validateInput } from '@wellspring/contract/validate';
import { encodeCursor } from '@wellspring/core/cursor';
import { newId } from '@wellspring/core/ids';
import type { Log } from '@wellspring/core/log';
import { notFound } from '@wellspring/core/problem';
import express, { type Express, type NextFunction, type Request, type Response } from 'express';
import { readJsonBody } from './json-body.ts';
import { PRINCIPAL_HEADER, verifyPrincipal } from './principal.ts';
import { sendProblem } from './problem-response.ts';
import { fieldSelector, type Selection } from './select-fields.ts';

export interface RequestContext<E extends Endpoint = Endpoint> {
  params: ParamsOf<E>;
  input: InputOf<E>;
  principal: Principal;
  /** `req_…` */
  requestId: string;
  /** Aborted when the client goes away. */
  signal: AbortSignal;
  req: Request;
  res: Response;
}

/** One page of a list: bind makes page_info of it. */
export interface Page<T> {
  data: T[];
  total_count: number;
  /** `raw`: the ids themselves are the cursors (event lists); default: base64url of the id. */
  cursors?: 'raw';
}

/** What a handler gives, by envelope. */
export type Answer<E extends Endpoint> = E['envelope'] extends 'page'
  ? Page<OutputOf<E>>
  : E['envelope'] extends 'list'
    ? OutputOf<E>[]
    : E['envelope'] extends 'single'
      ? OutputOf<E>
      : // none, null, stream, raw
        void;

/** An endpoint together with what answers it. */
export interface Route {
  endpoint: Endpoint;
  handle(context: RequestContext): Promise<unknown>;
}

/** Binds a handler to a declared endpoint; its types come from the declaration. */
export function route<E extends Endpoint>(
  endpoint: E,
  handle: (context: RequestContext<E>) => Promise<Answer<E>>,
): Route {
  return { endpoint, handle: handle as Route['handle'] };
}

export interface RouterOptions {
  /** Keys of the gateway's signature, newest first. */
  principalKeys: readonly Buffer[];
  log: Log;
}

const PREFIX = { public: '/v1', operator: '/admin/v1' } as const;

/** Nobody in particular: the principal of an endpoint that needs no key. */
const NOBODY: Principal = { kind: 'user', user_id: '', key_id: '', org_ids: [] };

/** What answers for a service: its routes below their version prefixes. Trusts only what the gateway signed. */
export function createRouter(routes: readonly Route[], { principalKeys, log }: RouterOptions): Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.set('query parser', 'simple');
  app.set('case sensitive routing', true);
  for (const { endpoint, handle } of routes) {
    const path = PREFIX[endpoint.listener] + endpoint.path.replace(/\{(\w+)\}/g, ':$1');
    const method = endpoint.method.toLowerCase() as 'get' | 'post' | 'put' | 'delete';
    app[method](path, async (req: Request, res: Response) => {
      const requestId = requestIdOf(req);
      try {
        await answer(endpoint, handle, requestId, req, res);
      } catch (error) {
        // Whoever asked is gone: nobody to tell.
        if (res.destroyed && !res.writableEnded && !(error instanceof Error && error.name === 'Problem'))
          return;
        sendProblem(res, error, { requestId, log });
      }
    });
  }
  app.use((req: Request, res: Response) =>
    sendProblem(res, notFound('endpoint here'), { requestId: requestIdOf(req), log }),
  );
  // Express itself refuses paths that cannot be decoded.
  app.use((error: { status?: number }, req: Request, res: Response, _next: NextFunction) =>
    sendProblem(res, (error.status ?? 500) < 500 ? notFound('page here') : error, {
      requestId: requestIdOf(req),
      log,
    }),
  );
  return app;

  async function answer(
    endpoint: Endpoint,
    handle: Route['handle'],
    requestId: string,
    req: Request,
    res: Response,
  ) {
    const principal = endpoint.authenticated
      ? verifyPrincipal(req.get(PRINCIPAL_HEADER), principalKeys)
      : NOBODY;
    const body =
      req.method === 'GET' || req.method === 'HEAD'
        ? {}
        : await readJsonBody(req, endpoint.bodyLimit ?? LIMITS.apiBody);
    const input = validateInput(endpoint.input, req.query as Record<string, unknown>, body) as Selection;
    const gone = new AbortController();
    res.once('close', () => gone.abort());
    const context = { params: req.params, input, principal, requestId, signal: gone.signal, req, res };
    const result = await handle(context as unknown as RequestContext);
    if (endpoint.envelope === 'stream' || endpoint.envelope === 'raw') return;
    res.setHeader('x-request-id', requestId);
    if (endpoint.envelope === 'none') {
      res.writeHead(endpoint.status).end();
      return;
    }
    const text = JSON.stringify(enveloped(endpoint, result, fieldSelector(input)));
    res.writeHead(endpoint.status, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(text),
    });
    res.end(text);
  }
}

const requestIdOf = (req: Request): string => req.get('x-request-id') ?? newId('req');

function enveloped(endpoint: Endpoint, result: unknown, select: (resource: unknown) => unknown): unknown {
  if (endpoint.envelope === 'null') return { data: null };
  if (endpoint.envelope === 'single') return { data: select(result) };
  if (endpoint.envelope === 'list') return { data: (result as unknown[]).map(select) };
  const { data, total_count, cursors } = result as Page<{ id: string }>;
  const cursor = (item: { id: string } | undefined) =>
    item === undefined ? null : cursors === 'raw' ? item.id : encodeCursor(item.id);
  return {
    page_info: {
      total_count,
      count: data.length,
      start_cursor: cursor(data[0]),
      end_cursor: cursor(data.at(-1)),
    },
    data: data.map(select),
  };
}

export interface RouterOptions {
  /** Keys of the gateway's signature, newest first. */
  principalKeys: readonly Buffer[];
  log: Log;
}

const PREFIX = { public: '/v1', operator: '/admin/v1' } as const;

/**
 * What answers for bound endpoints: checks who asks, validates the input, calls the handler and writes its answer.
 * Expects requests from the gateway, which signs the principal (see http/principal).
 */
export function createRouter(routes: readonly Route[], options: RouterOptions): RequestListener {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.enable('case sensitive routing');
  // Parameters are read from the raw query, below.
  app.disable('query parser');
  for (const one of [...routes].sort(byParameters)) {
    const { listener, path, method } = one.endpoint;
    const pattern = PREFIX[listener] + path.replace(/\{(\w+)\}/g, ':$1');
    app[method.toLowerCase() as 'get' | 'post' | 'put' | 'delete'](pattern, (req, res) =>
      serve(one, req, res, options),
    );
  }
  app.use((req, res) =>
    sendProblem(res, notFound('endpoint here'), { ...options, requestId: requestIdOf(req) }),
  );
  app.use((error: unknown, req: Request, res: Response, _next: () => void) =>
    sendProblem(res, error, { ...options, requestId: requestIdOf(req) }),
  );
  return app;
}

/** Literal segments before parameters: `/users/me` before `/users/{id}`. */
function byParameters(a: Route, b: Route): number {
  const mark = (path: string) => path.replace(/\{\w+\}/g, '\uffff');
  return mark(a.endpoint.path) < mark(b.endpoint.path) ? -1 : 1;
}

function requestIdOf(req: Request): string {
  const given = req.headers['x-request-id'];
  return isId('req', given) ? given : newId('req');
}

async function serve({ endpoint, handle }: Route, req: Request, res: Response, options: RouterOptions) {
  const begun = performance.now();
  const requestId = requestIdOf(req);
  const { log, principalKeys } = options;
  res.setHeader('x-request-id', requestId);
  const gone = new AbortController();
  let user: string | undefined;
  res.once('close', () => {
    gone.abort();
    log.info(
      {
        request_id: requestId,
        operation: endpoint.operationId,
        status: res.statusCode,
        duration_ms: Math.round(performance.now() - begun),
        user_id: user,
      },
      'http.request',
    );
  });
  try {
    const principal = verifyPrincipal(req.headers[PRINCIPAL_HEADER], principalKeys);
    if (endpoint.authenticated && !principal) throw unauthorized();
    if (principal?.kind === 'user') user = principal.user_id;
    const input = await readInput(endpoint, req);
    const answer = await handle({
      params: req.params as never,
      input: input as never,
      // Endpoints that need no key do not look at it.
      principal: principal ?? { kind: 'user', user_id: '', key_id: '', org_ids: [] },
      requestId,
      signal: gone.signal,
      req,
      res,
    });
    send(endpoint, answer, input, res);
  } catch (error) {
    sendProblem(res, error, { requestId, log });
  }
}

async function readInput(endpoint: Endpoint, req: Request): Promise<Selection> {
  const mark = req.url.indexOf('?');
  const query = mark < 0 ? {} : parseQuery(req.url.slice(mark + 1));
  const reads = endpoint.method !== 'GET';
  const body = reads ? await readJsonObject(req, endpoint.bodyLimit ?? LIMITS.apiBody) : {};
  return validateInput(endpoint.input, query, body) as Selection;
}

function send({ envelope, status }: Endpoint, answer: unknown, selection: Selection, res: Response): void {
  const select = (resource: unknown) => selectFields(resource, selection);
  switch (envelope) {
    case 'single':
      return sendJson(res, status, { data: select(answer) });
    case 'list':
      return sendJson(res, status, { data: (answer as unknown[]).map(select) });
    case 'page':
      return sendJson(res, status, pageOf(answer as Page<{ id: string }>, select));
    case 'null':
      return sendJson(res, status, { data: null });
    case 'none':
      res.writeHead(status).end();
      return;
    case 'stream':
    case 'raw':
      // The handler has written the answer.
      return;
  }
}

function pageOf({ data, total_count, cursors }: Page<{ id: string }>, select: (item: unknown) => unknown) {
  const cursorOf = (item: { id: string } | undefined) =>
    item === undefined ? null : cursors === 'raw' ? item.id : encodeCursor(item.id);
  return {
    page_info: {
      total_count,
      count: data.length,
      start_cursor: cursorOf(data[0]),
      end_cursor: cursorOf(data.at(-1)),
    },
    data: data.map(select),
  };
}

function sendJson(res: Response, status: number, value: unknown): void {
  const text = JSON.stringify(value);
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) });
  res.end(text);
}
