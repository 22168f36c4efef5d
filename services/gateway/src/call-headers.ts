import type { IncomingMessage } from 'node:http';
import { MAX_HOPS } from '@wellspring/contract/messages';

/**
 * The headers of a call as the code receives them: with `x-forwarded-*`, also of a call without a proxy. Those of a proxy
 * stay as they are, whether it is trusted or not: only `client_ip` depends on that.
 */
export function createCallHeaders(
  publicUrl: string,
): (req: IncomingMessage, clientIp: string) => Record<string, string> {
  const { protocol, port } = new URL(publicUrl);
  const isHttps = protocol === 'https:';
  const forwarded = {
    'x-forwarded-proto': isHttps ? 'https' : 'http',
    'x-forwarded-port': port || (isHttps ? '443' : '80'),
  };
  return (req, clientIp) => {
    const headers: Record<string, string> = { 'x-forwarded-for': clientIp, ...forwarded };
    for (const [name, value] of Object.entries(req.headers)) {
      if (value !== undefined) headers[name] = Array.isArray(value) ? value.join(', ') : value;
    }
    return headers;
  };
}

/** Deliveries carry their number of hops, which bounds loops through endpoints. */
export function hopOf({ headers }: Pick<IncomingMessage, 'headers'>): number {
  const given = Number(headers['x-wellspring-hop-count'] ?? '');
  return Number.isInteger(given) && given > 0 ? Math.min(given, MAX_HOPS) : 0;
}
