import { isIP } from 'node:net';
import { canonicalAddress } from '@wellspring/core/addresses';

/**
 * Decides which targets the code of a sandbox may reach. Pure: names are judged before they are resolved, addresses
 * after, and what is not allowed here is never dialled.
 */

/** An address of the platform itself, or of a server that it works with. */
export interface PlatformEndpoint {
  host: string;
  port: number;
  /** Code may reach it where its address is public (an object store of a cloud). */
  onlyPrivate?: boolean;
}

/** What code never reaches, also when a list of allowed networks covers it. */
export interface PlatformAddresses {
  /** Own public names, without port: refused on every port, and with everything below them when `below` is set. */
  names: readonly { name: string; below: boolean }[];
  /** Ports of the platform's own listeners, on every address of this machine. */
  listenerPorts: readonly number[];
  endpoints: readonly PlatformEndpoint[];
}

export interface Target {
  host: string;
  port: number;
}

/** Why a target is refused. */
export type Refusal = 'port' | 'platform' | 'name' | 'address';

/** Ports of mail servers: code of strangers does not send mail from the platform's address. */
const MAIL_PORTS = [25, 465, 587];

/** `127.1`, `0x7f.1`, `2130706433`: numbers that C libraries take for IPv4 addresses. */
const NUMERIC = /^(?:0x[0-9a-f]*|\d+)(?:\.(?:0x[0-9a-f]*|\d+))*\.?$/i;

/** Lower case, without the dot at the end. */
export const plainName = (host: string): string => host.toLowerCase().replace(/\.$/, '');

export const refusePort = (port: number): Refusal | undefined =>
  MAIL_PORTS.includes(port) ? 'port' : undefined;

/** Judges a target before its name is resolved. @returns undefined when nothing speaks against it so far */
export function refuseTarget(
  { host, port }: Target,
  { names, endpoints }: PlatformAddresses,
): Refusal | undefined {
  const refused = refusePort(port);
  if (refused || isIP(host) !== 0) return refused;
  const plain = plainName(host);
  if (plain === '' || NUMERIC.test(plain)) return 'name';
  const isOwnName = names.some(({ name, below }) => plain === name || (below && plain.endsWith(`.${name}`)));
  const isOwnEndpoint = endpoints.some(
    (one) => one.port === port && one.onlyPrivate !== true && plainName(one.host) === plain,
  );
  return isOwnName || isOwnEndpoint ? 'platform' : undefined;
}

export interface AddressRules {
  /** Public addresses and those of the networks that were allowed. */
  isReachable(address: string): boolean;
  /** A listener of the platform, or a server that it works with. */
  isPlatform(address: string, port: number): boolean;
}

/** Judges an address that a name resolved to, or that was given as such. */
export function refuseAddress(address: string, port: number, rules: AddressRules): Refusal | undefined {
  const canonical = canonicalAddress(address);
  if (canonical === undefined) return 'address';
  if (rules.isPlatform(canonical, port)) return 'platform';
  return rules.isReachable(canonical) ? undefined : 'address';
}

/** The text of an EACCES, for the author of the code. */
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
