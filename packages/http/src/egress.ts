import { lookup as resolve } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { createAddressGuard } from '@wellspring/core/addresses';
import { Agent, buildConnector } from 'undici';

/** A connection to a forbidden address. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused';
  readonly code = 'EACCES';
}

/**
 * Client for requests to URLs that users choose (webhooks, `component_url`). It checks the address that is dialled:
 * names are resolved once and refused addresses are skipped, so neither a changed DNS answer nor a redirect reaches a
 * private network.
 */
export interface Egress {
  /** Pooled connections through the guard; follows no redirects. */
  agent: Agent;
  /** Resolves names to allowed addresses only. Not called for address literals: see checkUrl. */
  lookup: LookupFunction;
  /** @throws AddressRefused if the host of the URL is a refused address; Error for another scheme */
  checkUrl(url: string | URL): void;
  close(): Promise<void>;
}

export interface EgressOptions {
  /** CIDRs that may be reached beyond public addresses. */
  allowNetworks: readonly string[];
  /** Connections to one origin; default 64. */
  connections?: number;
  connectMs?: number;
}

const KEEP_ALIVE_MS = 10_000;
const refuse = (host: string) =>
  new AddressRefused(`${host} is not a public address, and WELLSPRING_ALLOW_NETWORKS does not list it`);

export function createEgress({ allowNetworks, connections = 64, connectMs = 10_000 }: EgressOptions): Egress {
  const isReachable = createAddressGuard(allowNetworks);

  const lookup: LookupFunction = (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, '');
      const addresses = found.filter(({ address }) => isReachable(address));
      const [first] = addresses;
      if (!first) return callback(refuse(hostname), '');
      if (options.all) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };

  const connector = buildConnector({ lookup, timeout: connectMs });
  const agent = new Agent({
    connections,
    pipelining: 1,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connect(options, callback) {
      // A literal is dialled without a lookup.
      const { hostname } = options;
      const literal = hostname.replace(/^\[|\]$/g, '');
      if (isIP(literal) !== 0 && !isReachable(literal)) return callback(refuse(literal), null);
      connector(options, callback);
    },
  });

  return {
    agent,
    lookup,
    checkUrl(url) {
      const { protocol, hostname } = new URL(url);
      if (protocol !== 'http:' && protocol !== 'https:')
        throw new Error('The URL is neither http nor https.');
      const literal = hostname.replace(/^\[|\]$/g, '');
      if (isIP(literal) !== 0 && !isReachable(literal)) throw refuse(literal);
    },
    close: () => agent.close(),
  };
}
