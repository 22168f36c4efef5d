import type { IncomingMessage } from 'node:http';
import { isIPv4 } from 'node:net';
import { cidrList } from '@wellspring/core/addresses';

const MAPPED = '::ffff:';

const plain = (address: string) =>
  address.startsWith(MAPPED) && isIPv4(address.slice(MAPPED.length)) ? address.slice(MAPPED.length) : address;

/**
 * The address of the client: the last one in the chain of peer and `x-forwarded-for` that is not a trusted proxy.
 * @param trusted CIDRs of WELLSPRING_TRUST_PROXY
 */
export function createClientIp(trusted: readonly string[]): (req: IncomingMessage) => string {
  const isTrusted = cidrList(trusted);
  return (req) => {
    const peer = plain(req.socket.remoteAddress ?? '');
    if (trusted.length === 0) return peer;
    const hops = String(req.headers['x-forwarded-for'] ?? '')
      .split(',')
      .map((hop) => hop.trim())
      .filter(Boolean);
    let address = peer;
    while (isTrusted(address) && hops.length > 0) address = plain(hops.pop()!);
    return address;
  };
}
