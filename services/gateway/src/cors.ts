import type { IncomingMessage, ServerResponse } from 'node:http';
import { pathOf } from '@wellspring/http/path-of';
import cors from 'cors';

const API = /^\/(?:v1|sources|workflows)(?:\/|$)/;
const MAX_AGE_SECONDS = 600;

/**
 * Cross-origin access to the API for the pages of these origins, or of all with `*`. Keys travel in a header, so that
 * cookies are never allowed. Returns true if it has answered the request: a preflight of an allowed configuration.
 */
export function createCors(
  origins: readonly string[],
): (req: IncomingMessage, res: ServerResponse) => boolean {
  if (origins.length === 0) return () => false;
  const handle = cors({
    origin: origins.includes('*') ? '*' : [...origins],
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'DELETE'],
    allowedHeaders: ['authorization', 'content-type', 'idempotency-key', 'last-event-id'],
    exposedHeaders: [
      'idempotent-replayed',
      'retry-after',
      'www-authenticate',
      'x-request-id',
      'x-wellspring-ignored',
    ],
    maxAge: MAX_AGE_SECONDS,
  });
  return (req, res) => {
    if (!API.test(pathOf(req))) return false;
    let answered = true;
    // It calls back at once unless it has answered a preflight.
    handle(req as never, res, () => {
      answered = false;
    });
    return answered;
  };
}
