import type { ServerResponse } from 'node:http';
import type { Log } from '@wellspring/core/log';
import { invalidParameter, Problem, payloadTooLarge, unavailable } from '@wellspring/core/problem';
import { asUnavailable, Unavailable } from '@wellspring/core/unavailable';
import { BodyTooLarge, NoRoomForBody } from './read-body.ts';

/** The Problem to send to the client; undefined: an internal error. */
function asProblem(error: unknown): Problem | undefined {
  if (error instanceof Problem) return error;
  if (error instanceof BodyTooLarge) return payloadTooLarge('6 MB');
  if (error instanceof Unavailable || error instanceof NoRoomForBody) return unavailable();
  // Thrown by the decoding of a path parameter.
  if (error instanceof URIError) return invalidParameter(undefined, 'The path is not properly encoded.');
  return undefined;
}

/**
 * Responds with a problem as JSON. Any other error becomes a 500, whose details are only in the log, under the same
 * request id. A client that has disconnected gets nothing; a response that has begun is aborted.
 */
export function sendProblem(
  res: ServerResponse,
  given: unknown,
  { requestId, log }: { requestId: string; log: Log },
): void {
  if (res.writableEnded) return;
  if (res.destroyed || res.socket?.destroyed) {
    // Ends it for those who wait for the outcome, e.g. repetitions with the same Idempotency-Key.
    res.statusCode = 500;
    res.end();
    return;
  }
  const error = asUnavailable(given);
  const problem = asProblem(error);
  if (error instanceof Unavailable) {
    log.warn({ request_id: requestId, error: error.message }, 'http.unavailable');
  } else if (!problem) {
    const { stack, message } = (error ?? {}) as { stack?: string; message?: string };
    log.error({ request_id: requestId, error: stack ?? message ?? String(error) }, 'http.failed');
  }
  if (res.headersSent) {
    res.destroy();
    return;
  }
  const text = JSON.stringify({
    error: problem?.message ?? 'Something went wrong on our side.',
    code: problem?.code ?? 'internal_error',
    param: problem?.param,
    ...problem?.details,
    request_id: requestId,
  });
  res.writeHead(problem?.status ?? 500, {
    ...problem?.headers,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'x-request-id': requestId,
  });
  res.end(text);
}
