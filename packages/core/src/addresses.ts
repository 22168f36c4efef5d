import { BlockList, isIP, SocketAddress } from 'node:net';

/**
 * Loopback, private, metadata and unroutable ranges; also those that embed an IPv4 address (NAT64, 6to4, Teredo), which
 * may be private.
 */
const REFUSED = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '::/96',
  '::ffff:0:0:0/96',
  '64:ff9b::/96',
  '64:ff9b:1::/48',
  '100::/64',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
  '5f00::/16',
  'fc00::/7',
  'fe80::/10',
  'fec0::/10',
  'ff00::/8',
];

/** Ports of mail servers: users must not send mail from the address of the platform, by any protocol. */
export const MAIL_PORTS: readonly number[] = [25, 465, 587];

/** Matches addresses against CIDRs or single addresses. @throws Error naming a malformed CIDR */
export function cidrList(cidrs: readonly string[]): (address: string) => boolean {
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [network = '', bits, ...rest] = cidr.split('/');
    const version = isIP(network);
    const most = version === 4 ? 32 : 128;
    const length = bits === undefined ? most : /^\d{1,3}$/.test(bits) ? Number(bits) : -1;
    if (version === 0 || network.includes('%') || rest.length > 0 || length < 0 || length > most) {
      throw new Error(`Malformed network ${cidr}: use CIDR notation such as 10.0.0.0/8.`);
    }
    list.addSubnet(network, length, version === 4 ? 'ipv4' : 'ipv6');
  }
  return (address) => {
    const version = isIP(address);
    // BlockList checks the IPv4 address of a mapped one (::ffff:0:0/96). It does not support zones.
    return version !== 0 && list.check(withoutZone(address), version === 4 ? 'ipv4' : 'ipv6');
  };
}

const withoutZone = (address: string) => address.replace(/%.*$/, '');

/**
 * Canonical notation: IPv6 shortened, without zone; an IPv4-mapped address as IPv4.
 * @returns undefined when it is not an address
 */
export function canonicalAddress(address: string): string | undefined {
  const version = isIP(address);
  if (version === 0) return undefined;
  if (version === 4) return address;
  const { address: short } = new SocketAddress({ address: withoutZone(address), family: 'ipv6' });
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(short) ?? [];
  return mapped ?? short;
}

const isRefused = cidrList(REFUSED);

/**
 * Outgoing connections may reach public addresses and the allowed networks.
 * @param allowNetworks CIDRs
 */
export function createAddressGuard(allowNetworks: readonly string[]): (address: string) => boolean {
  const isAllowed = cidrList(allowNetworks);
  return (address) => isIP(address) !== 0 && (isAllowed(address) || !isRefused(address));
}
