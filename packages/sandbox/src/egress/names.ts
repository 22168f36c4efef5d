import dns from 'node:dns';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { askServers } from './dns/client.ts';
import { type FoundRecords, findRecords, RECORD_TYPES } from './dns/records.ts';
import { recordsError } from './relay-error.ts';
import type { FoundAddress } from './wire.ts';

/** Concurrent look-ups of the relay process. */
export const MAX_LOOKUPS = 32;
/** Size of the thread pool, of which libuv uses half for look-ups. */
export const LOOKUP_THREADS = 2 * MAX_LOOKUPS;

/** Name resolution of the relay. Replaced in tests of hostile name servers. */
export interface Names {
  /** All addresses of a name, from the system's resolver. */
  lookup(host: string): Promise<FoundAddress[]>;
  /** Follows aliases, which the caller has to check. @throws RelayError for a type that is not allowed */
  records(host: string, type: string): Promise<FoundRecords>;
  /** Domains that the resolver appends to names: the network of this machine defines them. */
  searchDomains?: readonly string[];
}

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

/**
 * @param servers of records, in the format of `dns.getServers`
 * @param timeoutsMs for an answer of each server, by round; default: see dns/client.ts
 */
export const createSystemNames = (
  servers: () => readonly string[],
  timeoutsMs?: readonly number[],
): Names => ({
  searchDomains: readSearchDomains(),
  lookup: async (host) =>
    (await dns.promises.lookup(host, { all: true })).map(({ address, family }) => ({
      address,
      family: family === 6 ? 6 : 4,
    })),
  async records(host, type) {
    const known = RECORD_TYPES.find((one) => one === type);
    if (known === undefined || isIP(host) !== 0)
      throw recordsError('EACCES', host, type, `code may ask for ${RECORD_TYPES.join(', ')} of names`);
    try {
      return findRecords(host, known, await askServers(servers(), host, known, timeoutsMs));
    } catch (error) {
      throw recordsError((error as NodeJS.ErrnoException).code ?? 'EBADRESP', host, type);
    }
  },
});

export const systemNames = createSystemNames(dns.getServers);
