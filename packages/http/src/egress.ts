import { AsyncLocalStorage } from 'node:async_hooks';
import {
  type LookupAddress,
  type LookupAllOptions,
  type LookupOptions,
  lookup as systemResolve,
} from 'node:dns';
import { isIP, type LookupFunction, type Socket } from 'node:net';
import { createAddressGuard, MAIL_PORTS } from '@wellspring/core/addresses';
import { createFairPermits } from '@wellspring/core/fair-permits';
import { Agent, buildConnector, Pool } from 'undici';
import { acceptContinue } from './accept-continue.ts';

/** A connection to a forbidden address or port. */
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
  /**
   * Look-ups of this work are those of the owner: each name occupies a thread until its server answers, and owners share
   * the threads.
   */
  forOwner<T>(owner: string, work: () => T): T;
  /** @throws AddressRefused if the host of the URL is a refused address, or its port is; Error for another scheme */
  checkUrl(url: string | URL): void;
  close(): Promise<void>;
}

export interface EgressOptions {
  /** CIDRs that may be reached beyond public addresses. */
  allowNetworks: readonly string[];
  /** Connections to one origin; default 64. */
  connections?: number;
  connectMs?: number;
  /** Age from which a connection gets no further request, so that a name is looked up again; default a minute. */
  maxAgeMs?: number;
  /** `dns.lookup`; replaced in tests of name servers that are hostile or do not answer. */
  resolve?: Resolve;
}

export type Resolve = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void,
) => void;

/** Responses 1xx before the one that counts; each costs as much as that. */
export const MAX_INFORMATIONAL = 16;
const KEEP_ALIVE_MS = 10_000;
/** Concurrent look-ups of one client. */
const LOOKUPS = 14;
/**
 * Size of the thread pool of a process, of which libuv uses half for look-ups: those of two clients, and four for the
 * connections of the platform itself.
 */
export const LOOKUP_THREADS = 2 * (2 * LOOKUPS + 4);
/** Of an answer as it is sent, with all that precedes its head and its body: only the first bytes of a body are read. */
const MAX_ANSWER_BYTES = 256 * 1024;

/**
 * Ends a connection whose answer is longer: heads, and the framing of bodies, have no limit that the parser checks. Lets
 * answers begin with 100 Continue.
 */
function limitAnswers(socket: Socket): void {
  const { read, write } = socket;
  const informational = acceptContinue();
  let bytes = 0;
  // Without pipelining, a write begins or continues a request, and what is read is its answer.
  socket.write = ((...args: Parameters<typeof write>) => {
    bytes = 0;
    informational.begin();
    return write.apply(socket, args);
  }) as typeof write;
  socket.read = (size) => {
    const chunk: Buffer | null = read.call(socket, size);
    if (chunk === null) return null;
    bytes += chunk.length;
    informational.read(chunk);
    if (bytes <= MAX_ANSWER_BYTES) return chunk;
    socket.destroy(new Error(`The answer has more than ${MAX_ANSWER_BYTES / 1024} KB.`));
    return null;
  };
}

/**
 * The agent forgets a pool when its last connection ends, but not if that was by the end of a request without an answer:
 * the pool still seems busy then. It looks again after each of these events.
 */
function createPool(origin: string | URL, options: object): Pool {
  const pool = new Pool(origin, options);
  pool.on('disconnect', (url, _, error) => setImmediate(() => pool.emit('connectionError', url, [], error)));
  return pool;
}

const refuse = (host: string) =>
  new AddressRefused(`${host} is not a public address, and WELLSPRING_ALLOW_NETWORKS does not list it`);

export function createEgress({
  allowNetworks,
  connections = 64,
  connectMs = 10_000,
  maxAgeMs = 60_000,
  resolve = systemResolve,
}: EgressOptions): Egress {
  const isReachable = createAddressGuard(allowNetworks);
  const lookups = createFairPermits({ total: LOOKUPS });
  const owners = new AsyncLocalStorage<string>();

  /** Look-ups in progress. */
  const pending = new Map<string, Promise<LookupAddress[]>>();

  async function resolveFor(owner: string, hostname: string, options: LookupAllOptions) {
    const release = await lookups.acquire(owner, AbortSignal.timeout(connectMs)).catch(() => {
      throw new Error(`getaddrinfo ${hostname}: other look-ups of this owner have no answer`);
    });
    return new Promise<LookupAddress[]>((done, fail) =>
      resolve(hostname, options, (error, found) => {
        release();
        if (error) fail(error);
        else done(found);
      }),
    );
  }

  /** Connections of an owner to the same name share a look-up: one name occupies one thread. */
  function addressesOf(hostname: string, { family, hints }: LookupOptions): Promise<LookupAddress[]> {
    const owner = owners.getStore() ?? hostname;
    const key = JSON.stringify([owner, hostname, family, hints]);
    let found = pending.get(key);
    if (!found) {
      found = resolveFor(owner, hostname, { family, hints, all: true });
      pending.set(key, found);
      const forget = () => void pending.delete(key);
      found.then(forget, forget);
    }
    return found;
  }

  const lookup: LookupFunction = (hostname, options, callback) => {
    const answer = (found: readonly LookupAddress[]) => {
      const addresses = found.filter(({ address }) => isReachable(address));
      const [first] = addresses;
      if (!first) callback(refuse(hostname), '');
      else if (options.all) callback(null, addresses);
      else callback(null, first.address, first.family);
    };
    addressesOf(hostname, options).then(answer, (error) => callback(error, ''));
  };

  /** Reason against a target that is known without a look-up: literals are dialled without one. */
  function refusalOf({ hostname, port }: { hostname: string; port: string }): AddressRefused | undefined {
    const literal = hostname.replace(/^\[|\]$/g, '');
    if (isIP(literal) !== 0 && !isReachable(literal)) return refuse(literal);
    // Mail servers skip the lines of HTTP, which they do not know, and may obey those of its body.
    if (MAIL_PORTS.includes(Number(port)))
      return new AddressRefused(`${hostname}:${port} may not be reached: ${port} is a port of mail servers`);
    return undefined;
  }

  // HTTP/2 would bypass the limits on answers, and a receiver that ends its sessions would leak connections.
  const allowH2 = false;
  const connector = buildConnector({ lookup, timeout: connectMs, allowH2 });
  const agent = new Agent({
    connections,
    allowH2,
    factory: createPool,
    pipelining: 1,
    keepAliveTimeout: KEEP_ALIVE_MS,
    clientTtl: maxAgeMs,
    connect(options, callback) {
      const refused = refusalOf(options);
      if (refused) return callback(refused, null);
      connector(options, (...result) => {
        if (result[1]) limitAnswers(result[1]);
        callback(...result);
      });
    },
  });

  return {
    agent,
    lookup,
    forOwner: (owner, work) => owners.run(owner, work),
    checkUrl(url) {
      const target = new URL(url);
      if (target.protocol !== 'http:' && target.protocol !== 'https:')
        throw new Error('The URL is neither http nor https.');
      const refused = refusalOf(target);
      if (refused) throw refused;
    },
    close: () => agent.close(),
  };
}
