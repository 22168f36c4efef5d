import { isIP } from 'node:net';
import { canonicalAddress, createAddressGuard } from '@wellspring/core/addresses';
import { createFairPermits } from '@wellspring/core/fair-permits';
import type { FewDescriptors } from './descriptors.ts';
import { EGRESS_LIMITS, type EgressLimits } from './limits.ts';
import { MAX_LOOKUPS, type Names, systemNames } from './names.ts';
import { createOwnAddresses } from './platform-addresses.ts';
import {
  type PlatformAddresses,
  type Refusal,
  refusalText,
  refuseAddress,
  refusePort,
  refuseTarget,
  type Target,
} from './policy.ts';
import { createNameRules } from './private-names.ts';
import { RelayError, recordsError } from './relay-error.ts';
import { createSandboxRelay, type Rules, type SandboxRelay } from './sandbox-relay.ts';
import { createShares } from './shares.ts';
import type { Destination } from './traffic.ts';

export interface RelayConfig {
  /** CIDRs that all code may reach. */
  allowNetworks: readonly string[];
  platform: PlatformAddresses;
  limits?: Partial<EgressLimits>;
}

/** From the relay to the runner. */
export type Report =
  /** At the start, if there are few. */
  | { type: 'descriptors'; few: FewDescriptors }
  | { type: 'used'; sandbox: string }
  | { type: 'limit'; sandbox: string; limit: string }
  | { type: 'traffic'; sandbox: string; destinations: Destination[] };

/** From the runner to the relay. */
export type Order =
  | { type: 'open'; sandbox: string; path: string }
  | { type: 'assign'; sandbox: string; owner: string | null }
  | { type: 'owner'; owner: string; networks: readonly string[] }
  | { type: 'endRun'; sandbox: string }
  | { type: 'close'; sandbox: string };

/** Connects sandboxes with the network. All of its state comes from orders, so that it can be restarted. */
export interface Relay {
  order(order: Order): void;
  close(): void;
}

interface Served {
  owner: string | null;
  relay: SandboxRelay;
}

/** Look-ups reserved for the names of the platform. */
const PLATFORM_LOOKUPS = 4;

const refuse = (refusal: Refusal, target: Target) =>
  new RelayError({
    code: 'EACCES',
    syscall: 'connect',
    message: refusalText(refusal, target),
    address: target.host,
    port: target.port,
  });

const refuseRecords = (host: string, type: string) =>
  recordsError(
    'EACCES',
    host,
    type,
    'code may ask for records of public names; of the names of a private network only if WELLSPRING_CODE_ALLOW_NETWORKS, or code_allow_networks of the organization, names a network',
  );

/** @param names replaced in tests of hostile name servers */
export function createRelay(
  config: RelayConfig,
  report: (report: Report) => void,
  names: Names = systemNames,
): Relay {
  const limits = { ...EGRESS_LIMITS, ...config.limits };
  const own = createOwnAddresses(config.platform, names.lookup);
  const nameRules = createNameRules(config.platform, names.searchDomains);
  const forAll = createAddressGuard(config.allowNetworks);
  const owners = new Map<string, { isAllowed(address: string): boolean; hasNetworks: boolean }>();
  const sandboxes = new Map<string, Served>();
  const lookups = createFairPermits({ total: MAX_LOOKUPS - PLATFORM_LOOKUPS });
  const shareOf = createShares(limits);

  /** Permits are shared fairly, so that a slow name server delays only the owner who uses its names. */
  async function permitted<T>(owner: string, work: () => Promise<T>): Promise<T> {
    const release = await lookups.acquire(owner);
    try {
      return await work();
    } finally {
      release();
    }
  }

  const ownerOf = (id: string) => sandboxes.get(id)?.owner ?? `sandbox ${id}`;

  function rulesOf(id: string): Rules {
    const networks = () => owners.get(sandboxes.get(id)?.owner ?? '');
    const isReachable = (address: string) => forAll(address) || networks()?.isAllowed(address) === true;
    const lookup = (host: string) => permitted(ownerOf(id), () => names.lookup(host));

    async function recordsOf(host: string, type: string): Promise<unknown> {
      const privateNames = config.allowNetworks.length > 0 || networks()?.hasNetworks === true;
      const allowed = { privateNames, isReachable };
      if (!nameRules.mayAsk(host, allowed)) throw refuseRecords(host, type);
      const found = await permitted(ownerOf(id), () => names.records(host, type));
      if (!nameRules.mayAnswer(found, allowed)) throw refuseRecords(host, type);
      if (found.missing) throw recordsError(found.missing, host, type);
      return found.records;
    }

    return {
      async resolve(target) {
        await own.ready;
        const { host, port } = target;
        // A `lookup` function of the code may return several addresses.
        const literals = host.split(',');
        const isLiteral = literals.every((one) => isIP(one) !== 0);
        const refused = isLiteral ? refusePort(port) : refuseTarget(target, config.platform);
        if (refused) throw refuse(refused, target);
        const found = isLiteral ? literals : (await lookup(host)).map(({ address }) => address);
        const refusals = found.map((address) =>
          refuseAddress(address, port, { isReachable, isPlatform: own.isPlatform }),
        );
        const dialled = found.filter((_, index) => refusals[index] === undefined);
        if (dialled.length === 0) throw refuse(refusals[0] ?? 'address', target);
        return dialled.map((address) => canonicalAddress(address)!);
      },
      async ask(question) {
        if ('resolve' in question) return { records: await recordsOf(question.resolve, question.type) };
        const host = question.lookup;
        const found = await lookup(host);
        // Private addresses of the operator's network are not disclosed to code that may not reach them.
        const shown = found.filter(({ address }) => isReachable(canonicalAddress(address) ?? ''));
        if (shown.length === 0) {
          throw new RelayError({
            code: 'EACCES',
            syscall: 'getaddrinfo',
            hostname: host,
            message: `getaddrinfo EACCES ${host}: the name has no public address; WELLSPRING_CODE_ALLOW_NETWORKS, or code_allow_networks of the organization, names the private networks that code may reach`,
          });
        }
        return { found: shown };
      },
    };
  }

  function send(sandbox: string, { relay }: Served): void {
    const destinations = relay.report();
    if (destinations.length > 0) report({ type: 'traffic', sandbox, destinations });
  }

  return {
    order(order) {
      if (order.type === 'owner') {
        const { owner, networks } = order;
        owners.set(owner, { isAllowed: createAddressGuard(networks), hasNetworks: networks.length > 0 });
        return;
      }
      const { sandbox: id } = order;
      if (order.type === 'open') {
        const relay = createSandboxRelay({
          path: order.path,
          limits,
          rules: rulesOf(id),
          share: shareOf(() => ownerOf(id)),
          onUsed: () => report({ type: 'used', sandbox: id }),
          onLimit: (limit) => report({ type: 'limit', sandbox: id, limit }),
        });
        sandboxes.set(id, { owner: null, relay });
        return;
      }
      const sandbox = sandboxes.get(id);
      if (!sandbox) return;
      if (order.type === 'assign') {
        sandbox.owner = order.owner;
        sandbox.relay.assign();
      } else {
        send(id, sandbox);
        if (order.type === 'close') {
          sandboxes.delete(id);
          sandbox.relay.close();
        }
      }
    },
    close() {
      own.close();
      for (const { relay } of sandboxes.values()) relay.close();
      sandboxes.clear();
    },
  };
}
