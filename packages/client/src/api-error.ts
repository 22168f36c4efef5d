/** An answer outside 2xx. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  /** snake_case and stable, e.g. `not_found`; `unknown` when the answer was not the platform's. */
  readonly code: string;
  /** The parameter at fault. */
  readonly param: string | undefined;
  /** Names the request in the log of the platform. */
  readonly requestId: string | undefined;
  /** Of a 429 or 503: the seconds to wait. */
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

/** A proxy in between may answer with anything. */
function parseBody(text: string): Record<string, unknown> {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
