import type { Endpoint, InputOf, OutputOf, ParamsOf } from '@wellspring/contract/endpoint';
import { endpoints } from '@wellspring/contract/endpoints/all';
import { ApiError } from './api-error.ts';
import { openStream } from './stream.ts';

type Endpoints = typeof endpoints;

/** Parameters of an operation: path parameters and input in one object. */
export type Arguments<E extends Endpoint> = ParamsOf<E> & Omit<InputOf<E>, keyof ParamsOf<E>>;

export interface Page<T> {
  page_info: {
    total_count: number;
    count: number;
    start_cursor: string | null;
    end_cursor: string | null;
  };
  data: T[];
}

/** Result of an operation: the resource without its envelope; a page keeps its page_info. */
export type Result<E extends Endpoint> = {
  single: OutputOf<E>;
  list: OutputOf<E>[];
  page: Page<OutputOf<E>>;
  none: undefined;
  null: undefined;
  raw: unknown;
  stream: AsyncIterableIterator<OutputOf<E>>;
}[E['envelope']];

export interface CallOptions {
  signal?: AbortSignal;
  /** A repeated POST with the same key is executed once. */
  idempotencyKey?: string;
}

/**
 * Calls an endpoint.
 * @throws ApiError for a status other than 2xx; the error of `fetch` without a response
 */
export type Operation<E extends Endpoint> =
  Record<never, never> extends Arguments<E>
    ? (args?: Arguments<E>, options?: CallOptions) => Promise<Result<E>>
    : (args: Arguments<E>, options?: CallOptions) => Promise<Result<E>>;

/** Endpoints of the public API by operation id. */
export type Client = {
  [K in keyof Endpoints as K extends `operator${string}` ? never : K]: Operation<Endpoints[K]>;
};

/** Endpoints of the operator API by operation id. */
export type OperatorClient = {
  [K in keyof Endpoints as K extends `operator${string}` ? K : never]: Operation<Endpoints[K]>;
};

export interface ClientOptions {
  /** Origin of the listener, e.g. `http://127.0.0.1:3000`. */
  url: string;
  key: string;
}

/** A client of the public API. */
export const createClient = (options: ClientOptions): Client => operations('public', options) as Client;

/** A client of the operator API: the origin of the operator listener, and the admin key. */
export const createOperatorClient = (options: ClientOptions): OperatorClient =>
  operations('operator', options) as OperatorClient;

function operations(listener: Endpoint['listener'], options: ClientOptions): Record<string, unknown> {
  const chosen = Object.values<Endpoint>(endpoints).filter((endpoint) => endpoint.listener === listener);
  return Object.fromEntries(
    chosen.map((endpoint) => [
      endpoint.operationId,
      endpoint.envelope === 'stream' ? stream(endpoint, options) : call(endpoint, options),
    ]),
  );
}

const PREFIX = { public: '/v1', operator: '/admin/v1' } as const;

type Given = Record<string, unknown>;

/** Path parameters go into the path; of GET and DELETE, the others go into the query. */
function address(endpoint: Endpoint, { url }: ClientOptions, args: Given): { url: URL; body: Given } {
  const body: Given = Object.fromEntries(Object.entries(args).filter(([, value]) => value !== undefined));
  const path = endpoint.path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = body[name];
    delete body[name];
    if (typeof value !== 'string' || value === '') {
      throw new TypeError(`${endpoint.operationId} needs ${name}, a text`);
    }
    return encodeURIComponent(value);
  });
  const target = new URL(PREFIX[endpoint.listener] + path, url);
  if (endpoint.method === 'POST' || endpoint.method === 'PUT') return { url: target, body };
  for (const [name, value] of Object.entries(body)) target.searchParams.set(name, String(value));
  return { url: target, body: {} };
}

const authorization = (key: string) => ({ authorization: `Bearer ${key}` });

function call(endpoint: Endpoint, options: ClientOptions) {
  return async (args: Given = {}, { signal, idempotencyKey }: CallOptions = {}): Promise<unknown> => {
    const { url, body } = address(endpoint, options, args);
    const sends = Object.keys(body).length > 0;
    const response = await fetch(url, {
      method: endpoint.method,
      headers: {
        ...authorization(options.key),
        ...(sends && { 'content-type': 'application/json' }),
        ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
      },
      body: sends ? JSON.stringify(body) : null,
      signal: signal ?? null,
    });
    const text = await response.text();
    if (!response.ok) throw new ApiError(response, text);
    return unwrap(endpoint, text);
  };
}

function unwrap({ envelope }: Endpoint, text: string): unknown {
  if (envelope === 'none' || envelope === 'null') return undefined;
  const answer = JSON.parse(text);
  return envelope === 'single' || envelope === 'list' ? answer.data : answer;
}

/**
 * A stream begins after `last_event_id`; without it, that of a source begins with the events emitted after this call,
 * that of a workflow with its newest 100. See openStream.
 */
function stream(endpoint: Endpoint, options: ClientOptions) {
  const list = call(endpoints.listSourceEvents, options);
  return async (args: Given = {}, { signal }: CallOptions = {}): Promise<unknown> => {
    const { last_event_id, ...rest } = args;
    const { url } = address(endpoint, options, rest);
    return openStream({
      url,
      headers: authorization(options.key),
      lastEventId: typeof last_event_id === 'string' ? last_event_id : await start(rest),
      signal,
    });
  };

  /**
   * The newest event of a source: without it, a connection lost before the first event could not be resumed without a
   * gap. None for a workflow, whose stream then begins with its newest 100 events.
   */
  async function start({ id, event_name }: Given): Promise<string | undefined> {
    if (endpoint.operationId === endpoints.streamWorkflow.operationId) return undefined;
    const page = (await list({ id, event_name, limit: 1, include: 'id' })) as { data: { id: string }[] };
    return page.data[0]?.id ?? '0-0';
  }
}
