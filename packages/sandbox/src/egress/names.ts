import dns from 'node:dns';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { RelayError } from './relay-error.ts';
import type { FoundAddress } from './wire.ts';

/** Concurrent look-ups of the relay process. */
export const MAX_LOOKUPS = 32;
/** Size of the thread pool, of which libuv uses half for look-ups. */
export const LOOKUP_THREADS = 2 * MAX_LOOKUPS;

/** Name resolution of the relay. Replaced in tests of hostile name servers. */
export interface Names {
  /** All addresses of a name, from the system's resolver. */
  lookup(host: string): Promise<FoundAddress[]>;
  /** Records in the format of `dns.resolve`. @throws Error for a type that is not allowed */
  records(host: string, type: string): Promise<unknown>;
  /** Domains that the resolver appends to names: the network of this machine defines them. */
  searchDomains?: readonly string[];
}

const TYPES = ['CAA', 'CNAME', 'MX', 'NAPTR', 'NS', 'PTR', 'SOA', 'SRV', 'TXT'];

/** Domains of the lines `search` and `domain` of resolv.conf. */
export const searchDomainsOf = (resolvConf: string): string[] =>
  [...resolvConf.matchAll(/^(?:search|domain)[ \t](.*)$/gm)].flatMap(([, list]) =>
    list!.split(/\s+/).filter((domain) => domain !== ''),
  );

function readSearchDomains(): string[] {
  try {
    return searchDomainsOf(readFileSync('/etc/resolv.conf', 'utf8'));
  } catch {
    // The system does not have this file.
    return [];
  }
}

export const systemNames: Names = {
  searchDomains: readSearchDomains(),
  lookup: async (host) =>
    (await dns.promises.lookup(host, { all: true })).map(({ address, family }) => ({
      address,
      family: family === 6 ? 6 : 4,
    })),
  async records(host, type) {
    if (!TYPES.includes(type) || isIP(host) !== 0)
      throw new RelayError({
        code: 'EACCES',
        syscall: `query${type}`,
        hostname: host,
        message: `query${type} EACCES ${host}: code may ask for ${TYPES.join(', ')} of names`,
      });
    return dns.promises.resolve(host, type);
  },
};
