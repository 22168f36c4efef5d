/** A response with a status other than 2xx. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  /** snake_case and stable, e.g. `not_found`; `unknown` if the response is not from the platform. */
  readonly code: string;
  /** The parameter at fault. */
  readonly param: string | undefined;
  /** Id of the request in the platform's log. */
  readonly requestId: string | undefined;
  /** Seconds to wait, for 429 and 503. */
  readonly retryAfter: number | undefined;

  constructor(response: { status: number; headers: Headers }, text: string) {
    const body = parseBody(text);
    super(typeof body.error === 'string' ? body.error : `The server answered ${response.status}.`);
    this.status = response.status;
    this.code = typeof body.code === 'string' ? body.code : 'unknown';
    this.param = typeof body.param === 'string' ? body.param : undefined;
    this.requestId = response.headers.get('x-request-id') ?? undefined;
    const seconds = response.headers.get('retry-after');
    this.retryAfter = seconds !== null && /^\d+$/.test(seconds) ? Number(seconds) : undefined;
  }
}

/** A proxy may have answered, with any body. */
function parseBody(text: string): Record<string, unknown> {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
