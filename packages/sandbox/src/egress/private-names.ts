import { isIP } from 'node:net';
import { canonicalAddress } from '@wellspring/core/addresses';
import { type PlatformAddresses, plainName } from './policy.ts';

/**
 * Decides about which names code may ask for records. The system's resolver also knows names of the operator's network:
 * services of a cluster, zones of a company, names of private addresses.
 */

/** Domains that no public name server defines (RFC 6761, 6762 and 8375, `internal` by ICANN), or that are in common use. */
const PRIVATE_DOMAINS = [
  'consul',
  'corp',
  'home',
  'home.arpa',
  'internal',
  'intranet',
  'lan',
  'local',
  'localdomain',
  'localhost',
  'private',
  'test',
];

/** Excludes the escapes of resolvers, by which a name server would get another name than the one that was checked. */
const NAME = /^[a-z0-9_-]+(?:\.[a-z0-9_-]+)*$/;
const REVERSE = /(?:^|\.)(?:in-addr|ip6)\.arpa$/;

/** The address of a name such as `4.3.2.1.in-addr.arpa`. @returns undefined for zones of several addresses */
function addressOf(reverse: string): string | undefined {
  const labels = reverse.split('.').slice(0, -2).reverse();
  if (reverse.endsWith('.in-addr.arpa')) {
    const address = labels.join('.');
    return isIP(address) === 4 ? address : undefined;
  }
  const digits = labels.join('');
  if (labels.length !== 32 || digits.length !== 32) return undefined;
  return canonicalAddress(digits.match(/.{4}/g)!.join(':'));
}

/** Names in records in the format of `dns.resolve`. */
function namesIn(records: unknown): string[] {
  const fields = ['exchange', 'name', 'nsname', 'replacement'];
  return [records]
    .flat()
    .flatMap((record) =>
      typeof record === 'string'
        ? [record]
        : fields.map((field) => (record as Record<string, unknown>)[field]),
    )
    .filter((name) => typeof name === 'string')
    .filter((name) => plainName(name) !== '');
}

export interface NameRules {
  mayAsk(name: string, allowed: AllowedNames): boolean;
  /** Whether code may know the names in these records: a public name may be an alias of a private one. */
  mayAnswer(records: unknown, allowed: AllowedNames): boolean;
}

export interface AllowedNames {
  /** The code may reach private networks, so their names are no secret to it. */
  privateNames: boolean;
  isReachable(address: string): boolean;
}

export function createNameRules(
  { names, endpoints }: PlatformAddresses,
  searchDomains: readonly string[] = [],
): NameRules {
  const isIn = (name: string, domain: string) => name === domain || name.endsWith(`.${domain}`);
  const privateDomains = [...PRIVATE_DOMAINS, ...searchDomains.map(plainName)];
  const servers = endpoints
    .filter(({ onlyPrivate }) => onlyPrivate !== true)
    .map(({ host }) => plainName(host));

  const isOwn = (asked: string) =>
    names.some(({ name, below }) => asked === name || (below && isIn(asked, name))) ||
    servers.some((server) => isIn(asked, server));

  function isPrivate(name: string, isReachable: AllowedNames['isReachable']): boolean {
    if (!name.includes('.') || privateDomains.some((domain) => isIn(name, domain))) return true;
    if (!REVERSE.test(name)) return false;
    const address = addressOf(name);
    return address === undefined || !isReachable(address);
  }

  return {
    mayAsk(asked, { privateNames, isReachable }) {
      const name = plainName(asked);
      return NAME.test(name) && !isOwn(name) && (privateNames || !isPrivate(name, isReachable));
    },
    mayAnswer: (records, { privateNames, isReachable }) =>
      privateNames || !namesIn(records).some((name) => isPrivate(plainName(name), isReachable)),
  };
}
