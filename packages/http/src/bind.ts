import type { IncomingMessage, RequestListener } from 'node:http';
import { parse as parseQuery } from 'node:querystring';
import type { Endpoint, InputOf, OutputOf, ParamsOf } from '@wellspring/contract/endpoint';
import { LIMITS } from '@wellspring/contract/limits';
import type { Principal } from '@wellspring/contract/principal';
import { unknownFields, validateInput } from '@wellspring/contract/validate';
import { createHold, type Hold, UNLIMITED } from '@wellspring/core/byte-budget';
import { encodeCursor } from '@wellspring/core/cursor';
import { isId, newId } from '@wellspring/core/ids';
import { textInPieces } from '@wellspring/core/in-pieces';
import { stringify } from '@wellspring/core/json-text';
import { createLargeTurns } from '@wellspring/core/large-turns';
import type { Log } from '@wellspring/core/log';
import type { Memory } from '@wellspring/core/memory';
import { notFound, unauthorized, unavailable } from '@wellspring/core/problem';
import express, { type Request, type Response } from 'express';
import { closedStatus, onceClosed } from './once-closed.ts';
import { ownerFor, PRINCIPAL_HEADER, verifyPrincipal } from './principal.ts';
import { sendProblem } from './problem-response.ts';
import { readBody } from './read-body.ts';
import { readJsonObject } from './read-json.ts';
import { type Selection, selectFields } from './select-fields.ts';

export interface RequestContext<E extends Endpoint = Endpoint> {
  params: ParamsOf<E>;
  input: InputOf<E>;
  principal: Principal;
  /** `req_…` */
  requestId: string;
  /** Aborted when the response is closed: it was sent, or the client has disconnected. */
  signal: AbortSignal;
  /** Memory of the request, for handlers that read much. It is released when the answer has been sent. */
  hold: Hold;
  /** Names fields of the input that the handler ignores in a header of the answer. */
  ignore(names: readonly string[]): void;
  req: Request;
  res: Response;
}

/** One page of a list, from which bind derives page_info. */
export interface Page<T> {
  data: T[];
  total_count: number;
  /** `raw`: the ids themselves are the cursors (event lists); default: base64url of the id. */
  cursors?: 'raw';
}

/** Result of a handler by envelope. */
export type Answer<E extends Endpoint> = E['envelope'] extends 'page'
  ? Page<OutputOf<E>>
  : E['envelope'] extends 'list'
    ? OutputOf<E>[]
    : E['envelope'] extends 'single'
      ? OutputOf<E>
      : // none, null, stream, raw: a handler that returns nothing
        // biome-ignore lint/suspicious/noConfusingVoidType: it is the return type of a function
        void;

/** An endpoint with its handler. */
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
  memory: Pick<Memory, 'api'>;
}

interface CommonInput extends Selection {
  org_id?: string;
}

const PREFIX = { public: '/v1', operator: '/admin/v1' } as const;

/** Answers up to this size are not counted: a connection buffers as much. */
export const LARGE_ANSWER = 64 * 1024;

/** Reading of large bodies in this process. */
const bodyTurns = createLargeTurns({ owners: 2, smallBytes: 64 * 1024 });

const MAX_IGNORED = 10;
const MAX_IGNORED_CHARS = 64;

/** Principal of an endpoint that needs no key. */
const NOBODY: Principal = { kind: 'user', user_id: '', key_id: '', org_ids: [] };

/**
 * Request listener for endpoints: verifies the principal, validates the input, calls the handler, and responds.
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
  app.use((req, res) => sendProblem(res, notFound('endpoint'), { ...options, requestId: requestIdOf(req) }));
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
  return typeof given === 'string' && isId('req', given) ? given : newId('req');
}

async function serve({ endpoint, handle }: Route, req: Request, res: Response, options: RouterOptions) {
  const begun = performance.now();
  const requestId = requestIdOf(req);
  const { log, principalKeys, memory } = options;
  res.setHeader('x-request-id', requestId);
  const gone = new AbortController();
  let user: string | undefined;
  // Requests of the operator and documents are not limited.
  let hold = UNLIMITED;
  const ignored: string[] = [];
  const ignore = (names: readonly string[]) => {
    ignored.push(...names.slice(0, MAX_IGNORED - ignored.length));
    if (ignored.length > 0) res.setHeader('x-wellspring-ignored', ignoredHeader(ignored));
  };
  onceClosed(res, () => {
    gone.abort();
    log.info(
      {
        request_id: requestId,
        operation: endpoint.operationId,
        status: closedStatus(res),
        duration_ms: Math.round(performance.now() - begun),
        user_id: user,
      },
      'http.request',
    );
  });
  try {
    const principal = verifyPrincipal(req.headers[PRINCIPAL_HEADER], principalKeys);
    if (endpoint.authenticated && !principal) throw unauthorized();
    // A path that the gateway parsed differently must not turn a user into an operator.
    if (endpoint.authenticated && endpoint.listener === 'operator' && principal?.kind !== 'operator') {
      throw notFound('endpoint');
    }
    if (principal?.kind === 'user') {
      user = principal.user_id;
      hold = createHold(memory.api, user);
    }
    const context = { principal, ignore, hold, signal: gone.signal };
    const input = await readPermitted(endpoint, req, context);
    const answer = await handle({
      params: req.params as never,
      input: input as never,
      principal: principal ?? NOBODY,
      requestId,
      signal: gone.signal,
      hold,
      ignore,
      req,
      res,
    });
    await send(endpoint, answer, input, res, hold);
  } catch (error) {
    sendProblem(res, error, { requestId, log });
  } finally {
    // The client may have left before, or may read the answer slowly.
    onceClosed(res, hold.release);
  }
}

/**
 * The input of a call. Large ones of a user are read one at a time.
 * @throws Problem 400, 415; 403 for an organization that the user is not a member of; BodyTooLarge, NoRoomForBody
 */
export async function readPermitted(
  endpoint: Endpoint,
  req: IncomingMessage,
  {
    principal,
    ignore = () => {},
    hold,
    signal,
  }: {
    principal: Principal | undefined;
    hold: Hold;
    signal: AbortSignal;
    ignore?: RequestContext['ignore'];
  },
): Promise<CommonInput> {
  const user = principal?.kind === 'user' ? principal.user_id : '';
  const bytes = endpoint.method === 'GET' ? 0 : (await readBody(req, LIMITS.apiBody, hold)).length;
  const read = () => readInput(endpoint, req, ignore, hold);
  const input = await bodyTurns.run(user, bytes, read, signal);
  // An organization of others is refused also where the handler needs no owner.
  if (principal?.kind === 'user') ownerFor(principal, input.org_id);
  return input;
}

async function readInput(
  endpoint: Endpoint,
  req: IncomingMessage,
  ignore: RequestContext['ignore'],
  hold: Hold,
): Promise<CommonInput> {
  const { url = '/' } = req;
  const mark = url.indexOf('?');
  const query = mark < 0 ? {} : parseQuery(url.slice(mark + 1));
  const hasBody = endpoint.method !== 'GET';
  const body = hasBody ? await readJsonObject(req, LIMITS.apiBody, hold) : {};
  ignore(unknownFields(endpoint.input, query, body));
  return validateInput(endpoint.input, query, body) as CommonInput;
}

/** Names of ignored fields, shortened and encoded: a client may send long ones, or ones that no header may contain. */
const ignoredHeader = (names: readonly string[]) =>
  names.map((name) => encodeURIComponent(name.slice(0, MAX_IGNORED_CHARS).toWellFormed())).join(', ');

/** @throws Problem 503 for a large answer without room */
async function send(
  { envelope, status, method }: Endpoint,
  answer: unknown,
  selection: Selection,
  res: Response,
  hold: Hold,
): Promise<void> {
  // The handler has written the response.
  if (envelope === 'stream' || envelope === 'raw') return;
  if (envelope === 'none') {
    res.writeHead(status).end();
    return;
  }
  const text = stringify(enveloped(envelope, answer, (resource) => selectFields(resource, selection)));
  const bytes = Buffer.byteLength(text);
  const isCounted = bytes <= Math.max(hold.bytes, LARGE_ANSWER) || hold.take(bytes - hold.bytes);
  if (!isCounted) {
    if (method === 'GET') throw unavailable();
    // A change that was made is answered in any case.
    hold.count(bytes - hold.bytes);
  }
  res.writeHead(status, { 'content-type': 'application/json', 'content-length': bytes });
  if (bytes <= LARGE_ANSWER) {
    res.end(text);
    return;
  }
  // Also after the client has left: the gateway keeps the answer to a call with an Idempotency-Key.
  await textInPieces(text, (part) => void res.write(part));
  res.end();
}

function enveloped(
  envelope: 'single' | 'list' | 'page' | 'null',
  answer: unknown,
  select: (resource: unknown) => unknown,
): object {
  if (envelope === 'null') return { data: null };
  if (envelope === 'single') return { data: select(answer) };
  if (envelope === 'list') return { data: (answer as unknown[]).map(select) };
  const { data, total_count, cursors } = answer as Page<{ id: string }>;
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
