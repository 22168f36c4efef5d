import type { Static, TObject, TSchema } from 'typebox';

export const SERVICES = [
  'gateway',
  'components',
  'sources',
  'subscriptions',
  'webhooks',
  'events',
  'runner',
  'delivery',
] as const;
export type ServiceName = (typeof SERVICES)[number];

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/**
 * Envelope of the response: `single` {data}, `list` {data: []}, `page` {page_info, data: []}, `none` an empty
 * body, `null` {data: null}, `stream` server-sent events, `raw` anything that the handler writes.
 */
export type Envelope = 'single' | 'list' | 'page' | 'none' | 'null' | 'stream' | 'raw';

/**
 * An endpoint, declared once. Validation, handler types, OpenAPI, the client and the gateway's route table all
 * come from this value.
 */
export interface Endpoint<I extends TObject = TObject, O extends TSchema = TSchema> {
  operationId: string;
  service: ServiceName;
  /** `public`: the API, below `/v1`; `operator`: below `/admin/v1` on the second listener. */
  listener: 'public' | 'operator';
  method: Method;
  /** Below the version prefix, e.g. `/sources/{id}/event_summaries`. */
  path: string;
  /** Also reachable without the version prefix (the streams). */
  unversioned?: boolean;
  /** False only for documents that need no key. */
  authenticated: boolean;
  summary: string;
  /** Effects, limits and defaults, as sentences. */
  description: string;
  /**
   * All parameters outside the path. GET reads them from the query, other methods from the query or else the JSON body.
   * Values from the query are converted to the declared type, values of a body are not.
   */
  input: I;
  /** It changes nothing, so a large answer need not be stored for repetitions with the same `Idempotency-Key`. */
  changesNothing?: true;
  /** Further names of `input` that are documented as query parameters of a POST or PUT. */
  query?: readonly string[];
  /** At least one of these fields of the body is given and not null; of several, the first counts. The handler checks it. */
  atLeastOne?: readonly string[];
  /** Example of a body, for the OpenAPI document. */
  example?: Record<string, unknown>;
  /** Schema of one resource. */
  output: O;
  envelope: Envelope;
  /** Status of a success. */
  status: 200 | 202 | 204;
  /** Further error statuses, besides those that all endpoints of its kind share (see openapi/responses.ts). */
  problems: readonly number[];
}

export type InputOf<E> = E extends Endpoint<infer I, TSchema> ? Static<I> : never;
export type OutputOf<E> = E extends Endpoint<TObject, infer O> ? Static<O> : never;

type Names<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Names<Rest>
  : never;
/** The path parameters, each a non-empty string. */
export type ParamsOf<E extends { path: string }> = { [K in Names<E['path']>]: string };

type Declared<I extends TObject, O extends TSchema, P extends string, V extends Envelope> = Omit<
  Endpoint<I, O>,
  'listener' | 'authenticated' | 'problems' | 'path' | 'status' | 'envelope'
> & { path: P; envelope: V } & Partial<
    Pick<Endpoint<I, O>, 'listener' | 'authenticated' | 'problems' | 'status'>
  >;

/** Adds the defaults of a declaration and keeps its types. */
export function defineEndpoint<
  I extends TObject,
  O extends TSchema,
  const P extends string,
  const V extends Envelope,
>(declared: Declared<I, O, P, V>): Endpoint<I, O> & { path: P; envelope: V } {
  return { listener: 'public', authenticated: true, problems: [], status: 200, ...declared };
}
