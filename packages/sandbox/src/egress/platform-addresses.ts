import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { canonicalAddress, createAddressGuard } from '@wellspring/core/addresses';
import type { PlatformAddresses, PlatformEndpoint } from './policy.ts';
import type { FoundAddress } from './wire.ts';

/** Interval at which names of the platform's servers are resolved; shorter after a failure. */
const REFRESH_MS = 30_000;
const RETRY_MS = 5_000;
/** Time for which an address of a name stays refused, since a name may alternate between servers. */
const REMEMBER_MS = 3_600_000;
const INTERFACES_MS = 5_000;
const isLoopback = (address: string) => /^(127|0)\./.test(address) || address === '::1' || address === '::';

export interface OwnAddresses {
  /** Resolves after the first attempt to resolve every name. */
  ready: Promise<void>;
  /** @param address canonical */
  isPlatform(address: string, port: number): boolean;
  close(): void;
}

/**
 * Addresses of the platform and its servers, which code must not reach by any name. Names are resolved at intervals,
 * and the addresses of this machine are read from its interfaces.
 */
export function createOwnAddresses(
  { listenerPorts, privatePorts = [], endpoints }: PlatformAddresses,
  lookup: (host: string) => Promise<FoundAddress[]>,
): OwnAddresses {
  const isPublic = createAddressGuard([]);
  /** By `address port`: `performance.now()` at which a name last resolved to it. */
  const seen = new Map<string, number>();
  const fixed = new Set<string>();
  const localPorts = new Set(listenerPorts);
  let local = new Set<string>();
  let localReadAt = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function isLocal(address: string): boolean {
    if (isLoopback(address)) return true;
    const now = performance.now();
    if (now - localReadAt > INTERFACES_MS) {
      localReadAt = now;
      const found = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
      local = new Set(found.map((one) => canonicalAddress(one.address) ?? one.address));
    }
    return local.has(address);
  }

  function add(address: string, { port, onlyPrivate }: PlatformEndpoint, permanent: boolean): void {
    const canonical = canonicalAddress(address);
    if (canonical === undefined || (onlyPrivate === true && isPublic(canonical))) return;
    // A server on this machine may listen on any of its addresses.
    if (isLocal(canonical)) localPorts.add(port);
    if (permanent) fixed.add(`${canonical} ${port}`);
    else seen.set(`${canonical} ${port}`, performance.now());
  }

  const named = endpoints.filter((endpoint) => {
    const host = endpoint.host.replace(/^\[|\]$/g, '');
    if (isIP(host) === 0) return true;
    add(host, endpoint, true);
    return false;
  });

  async function refresh(): Promise<void> {
    const results = await Promise.allSettled(
      named.map(async (endpoint) => {
        for (const { address } of await lookup(endpoint.host)) add(address, endpoint, false);
      }),
    );
    const now = performance.now();
    for (const [key, at] of seen) if (now - at > REMEMBER_MS) seen.delete(key);
    if (closed || named.length === 0) return;
    const failed = results.some(({ status }) => status === 'rejected');
    timer = setTimeout(refresh, failed ? RETRY_MS : REFRESH_MS);
    timer.unref();
  }

  return {
    ready: refresh(),
    isPlatform: (address, port) =>
      (localPorts.has(port) && isLocal(address)) ||
      (privatePorts.includes(port) && !isPublic(address)) ||
      fixed.has(`${address} ${port}`) ||
      seen.has(`${address} ${port}`),
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}
