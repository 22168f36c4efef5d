import type { ProblemCode } from './problem-codes.ts';

/** The part of a failure that a client sees. */
export interface ProblemDetails {
  status: number;
  code: ProblemCode;
  /** One sentence for a person. */
  message: string;
  /** The parameter at fault. */
  param?: string | undefined;
  /** Further fields of the error's body. */
  details?: Record<string, unknown> | undefined;
  headers?: Record<string, string> | undefined;
}

/**
 * A permanent failure: a repetition has the same result. Sent to the client or recorded in `$errors`. Any other error
 * is transient in a worker and a 500 without details in HTTP.
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
export const unauthorized = (message = 'A valid API key is required: Authorization: Bearer <key>.') =>
  problem(401, 'unauthorized', message, undefined, { 'www-authenticate': 'Bearer realm="wellspring"' });
export const forbidden = (message: string, param?: string) => problem(403, 'forbidden', message, param);
/** The same answer for "unknown" and for "not yours". */
export const notFound = (what: string, id?: string) =>
  problem(404, 'not_found', id === undefined ? `There is no such ${what}.` : `There is no ${what} ${id}.`);
export const methodNotAllowed = (allow: string[]) =>
  problem(405, 'method_not_allowed', `Only ${allow.join(', ')} is allowed here.`, undefined, {
    allow: allow.join(', '),
  });
export const conflict = (code: ProblemCode, message: string, details?: Record<string, unknown>) =>
  new Problem({ status: 409, code, message, details });
export const gone = (code: ProblemCode, message: string) => problem(410, code, message);
export const payloadTooLarge = (limit: string) =>
  problem(413, 'payload_too_large', `The body is larger than ${limit}.`);
export const unsupportedMediaType = () =>
  problem(415, 'unsupported_media_type', 'The body has to be JSON, with content-type: application/json.');
export const tooManyRequests = (retryAfterSeconds: number) =>
  problem(429, 'too_many_requests', 'Too many requests; try again later.', undefined, {
    'retry-after': String(Math.max(1, Math.ceil(retryAfterSeconds))),
  });
export const quotaExceeded = (message: string, retryAfterSeconds: number) =>
  problem(429, 'quota_exceeded', message, undefined, { 'retry-after': String(Math.ceil(retryAfterSeconds)) });
export const unavailable = (message = 'The service is not available at the moment.') =>
  problem(503, 'unavailable', message, undefined, { 'retry-after': '1' });
