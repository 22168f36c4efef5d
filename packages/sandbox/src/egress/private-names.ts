import { isIP } from 'node:net';
import { canonicalAddress } from '@wellspring/core/addresses';
import type { FoundRecords } from './dns/records.ts';
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

/** Excludes characters that resolvers might read differently; aliases of addresses contain `/` (RFC 2317). */
const NAME = /^[a-z0-9_/-]+(?:\.[a-z0-9_/-]+)*$/;
const REVERSE = /(?:^|\.)(?:in-addr|ip6)\.arpa$/;

/**
 * The address of a name such as `4.3.2.1.in-addr.arpa`, or `4.0/26.3.2.1.in-addr.arpa` (RFC 2317).
 * @returns undefined for zones of several addresses
 */
function addressOf(reverse: string): string | undefined {
  const labels = reverse.split('.').slice(0, -2).reverse();
  if (reverse.endsWith('.in-addr.arpa')) {
    const address = [...labels.slice(0, 3), labels.slice(3).at(-1)].join('.');
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
  /** Whether code may know these records: a public name may be an alias of a private one. */
  mayAnswer(found: FoundRecords, allowed: AllowedNames): boolean;
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

  const mayAsk: NameRules['mayAsk'] = (asked, { privateNames, isReachable }) => {
    const name = plainName(asked);
    return NAME.test(name) && !isOwn(name) && (privateNames || !isPrivate(name, isReachable));
  };

  return {
    mayAsk,
    mayAnswer: ({ aliases, records }, allowed) =>
      aliases.every((alias) => mayAsk(alias, allowed)) &&
      (allowed.privateNames ||
        !namesIn(records).some((name) => isPrivate(plainName(name), allowed.isReachable))),
  };
}
