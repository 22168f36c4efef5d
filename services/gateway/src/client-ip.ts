import type { IncomingMessage } from 'node:http';
import { BlockList, isIPv4 } from 'node:net';

const plain = (address: string) =>
  address.startsWith('::ffff:') && isIPv4(address.slice(7)) ? address.slice(7) : address;

/**
 * The address of the client: the peer, or, while that is a trusted proxy, what it says in `x-forwarded-for`.
 * @param trusted CIDRs of WELLSPRING_TRUST_PROXY
 */
export function createClientIp(trusted: readonly string[]): (req: IncomingMessage) => string {
  const list = new BlockList();
  for (const cidr of trusted) {
    const [address, bits] = cidr.split('/');
    list.addSubnet(
      address!,
      Number(bits ?? (isIPv4(address!) ? 32 : 128)),
      isIPv4(address!) ? 'ipv4' : 'ipv6',
    );
  }
  const isTrusted = (address: string) => {
    try {
      return list.check(address, isIPv4(address) ? 'ipv4' : 'ipv6');
    } catch {
      return false;
    }
  };
  return (req) => {
    let address = plain(req.socket.remoteAddress ?? '');
    const forwarded = String(req.headers['x-forwarded-for'] ?? '');
    const hops = forwarded
      .split(',')
      .map((hop) => hop.trim())
      .filter(Boolean);
    while (isTrusted(address) && hops.length > 0) address = plain(hops.pop()!);
    return address;
  };
}
