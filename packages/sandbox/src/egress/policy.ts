import { isIP } from 'node:net';
import { canonicalAddress, MAIL_PORTS } from '@wellspring/core/addresses';

/**
 * Decides which targets the code of a sandbox may reach. Pure: names are checked before resolution, addresses after it,
 * and only allowed addresses are dialled.
 */

/** An address of the platform itself, or of a server that it uses. */
export interface PlatformEndpoint {
  host: string;
  port: number;
  /** Code may reach it if its address is public (an object store of a cloud). */
  onlyPrivate?: boolean;
}

/** Addresses that code never reaches, even if a list of allowed networks contains them. */
export interface PlatformAddresses {
  /** Public names of the platform: refused on every port, with `below` including their subdomains. */
  names: readonly { name: string; below: boolean }[];
  /** Ports of the platform's own listeners, on every address of this machine. */
  listenerPorts: readonly number[];
  /** Ports of listeners of other processes, whose addresses are unknown: refused at every private address. */
  privatePorts?: readonly number[];
  endpoints: readonly PlatformEndpoint[];
}

export interface Target {
  host: string;
  port: number;
}

/** Reason for which a target is refused. */
export type Refusal = 'port' | 'platform' | 'name' | 'address';

/** `127.1`, `0x7f.1`, `2130706433`: numbers that C libraries accept as IPv4 addresses. */
const NUMERIC = /^(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+))*\.?$/i;

/**
 * Names without a character that the C library reads as another one: for it, `\101` and `\e` in a name are an `e`, so
 * that the name would not be recognised.
 */
const NAME = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;

/** Lower case, without trailing dot. */
export const plainName = (host: string): string => host.toLowerCase().replace(/\.$/, '');

export const refusePort = (port: number): Refusal | undefined =>
  MAIL_PORTS.includes(port) ? 'port' : undefined;

/** Checks a target before its name is resolved. @returns undefined if its addresses may be checked */
export function refuseTarget(
  { host, port }: Target,
  { names, endpoints }: PlatformAddresses,
): Refusal | undefined {
  const refused = refusePort(port);
  if (refused || isIP(host) !== 0) return refused;
  const plain = plainName(host);
  if (!NAME.test(plain) || NUMERIC.test(plain)) return 'name';
  const isOwnName = names.some(({ name, below }) => plain === name || (below && plain.endsWith(`.${name}`)));
  const isOwnEndpoint = endpoints.some(
    (one) => one.port === port && one.onlyPrivate !== true && plainName(one.host) === plain,
  );
  return isOwnName || isOwnEndpoint ? 'platform' : undefined;
}

export interface AddressRules {
  /** The address is public or in an allowed network. */
  isReachable(address: string): boolean;
  /** The address is that of the platform, or of a server that it uses. */
  isPlatform(address: string, port: number): boolean;
}

/** Checks an address that a name resolved to, or that was given as a literal. */
export function refuseAddress(address: string, port: number, rules: AddressRules): Refusal | undefined {
  const canonical = canonicalAddress(address);
  if (canonical === undefined) return 'address';
  if (rules.isPlatform(canonical, port)) return 'platform';
  return rules.isReachable(canonical) ? undefined : 'address';
}

/** Message of the EACCES error, for the author of the code. */
export function refusalText(refusal: Refusal, { host, port }: Target): string {
  const where = `connect EACCES ${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
  switch (refusal) {
    case 'port':
      return `${where}: code may not reach the mail ports ${MAIL_PORTS.join(', ')}`;
    case 'platform':
      return `${where}: this is an address of the platform itself, which code may not reach`;
    case 'name':
      return `${where}: ${host} is neither a host name nor a complete IP address`;
    case 'address':
      return `${where}: ${host} is not a public address; WELLSPRING_CODE_ALLOW_NETWORKS, or code_allow_networks of the organization, names the private networks that code may reach`;
  }
}
