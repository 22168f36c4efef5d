import type { ProblemCode } from './problem-codes.ts';

export interface ProblemDetails {
  status: number;
  code: ProblemCode;
  /** One sentence for a person. */
  message: string;
  /** The parameter at fault. */
  param?: string | undefined;
  /** Further fields of the response's body, beside `error` and `code`. */
  details?: Record<string, unknown> | undefined;
  /** Of the response. */
  headers?: Record<string, string> | undefined;
}

/**
 * An error that the client is told, also if another process throws it in answer to a call (`packages/call`). Any other
 * error becomes a 500 without details, or a 503 if it is Unavailable. Repeating the request can only help with 429, 503
 * and some 409. For workers a Problem is an error like any other: the job is retried.
 */
export class Problem extends Error {
  override readonly name = 'Problem';
  readonly status: number;
  readonly code: ProblemCode;
  readonly param: string | undefined;
  readonly details: Record<string, unknown> | undefined;
  readonly headers: Record<string, string>;

  constructor({ status, code, message, param, details, headers = {} }: ProblemDetails) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
    this.details = details;
    this.headers = headers;
  }
}

const problem = (
  status: number,
  code: ProblemCode,
  message: string,
  param?: string,
  headers?: Record<string, string>,
) => new Problem({ status, code, message, param, headers });

export const invalidParameter = (param: string | undefined, message: string) =>
  problem(400, 'invalid_parameter', message, param);
export const missingParameter = (param: string, message = `The parameter ${param} is required.`) =>
  problem(400, 'missing_parameter', message, param);
export const malformedBody = (message: string) => problem(400, 'malformed_body', message);
export const invalidComponent = (message: string, param?: string) =>
  problem(400, 'invalid_component', message, param);
export const hookFailed = (message: string) => problem(400, 'hook_failed', message);
export const configurationFailed = (message: string) => problem(400, 'configuration_failed', message);
/** No parameter of a call says which component it is about. */
export const missingComponent = () =>
  missingParameter(
    'component_id',
    'One of component_id, component_code, component_url and key (of a published component) is required.',
  );
export const unauthorized = (message = 'A valid API key is required: Authorization: Bearer <key>.') =>
  problem(401, 'unauthorized', message, undefined, { 'www-authenticate': 'Bearer realm="wellspring"' });
export const forbidden = (message: string, param?: string) => problem(403, 'forbidden', message, param);
/**
 * The answer for resources of other tenants, too: their existence is not told.
 * @param what a noun, such as `source`
 */
export const notFound = (what: string, id?: string) =>
  problem(404, 'not_found', id === undefined ? `There is no such ${what}.` : `There is no ${what} ${id}.`);
export const methodNotAllowed = (allow: string[]) =>
  problem(405, 'method_not_allowed', `Only ${allow.join(', ')} is allowed here.`, undefined, {
    allow: allow.join(', '),
  });
export const conflict = (code: ProblemCode, message: string, details?: Record<string, unknown>) =>
  new Problem({ status: 409, code, message, details });
export const gone = (code: ProblemCode, message: string) => problem(410, code, message);
/** @param limit as text, e.g. `6 MB` */
export const payloadTooLarge = (limit: string) =>
  problem(413, 'payload_too_large', `The body is larger than ${limit}.`);
export const unsupportedMediaType = (
  message = 'The body has to be JSON, with content-type: application/json.',
) => problem(415, 'unsupported_media_type', message);
export const tooManyRequests = (retryAfterSeconds: number) =>
  problem(429, 'too_many_requests', 'Too many requests; try again later.', undefined, {
    'retry-after': String(Math.max(1, Math.ceil(retryAfterSeconds))),
  });
/** A quota is the use of an owner per day, unlike the rate of `tooManyRequests`. */
export const quotaExceeded = (message: string, retryAfterSeconds: number) =>
  problem(429, 'quota_exceeded', message, undefined, { 'retry-after': String(Math.ceil(retryAfterSeconds)) });
export const unavailable = (message = 'The service is not available at the moment.') =>
  problem(503, 'unavailable', message, undefined, { 'retry-after': '1' });
