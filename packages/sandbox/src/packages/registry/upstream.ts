import { lookup as resolveName } from 'node:dns';
import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { getCACertificates } from 'node:tls';
import { createGunzip } from 'node:zlib';
import { createAddressGuard } from '@wellspring/core/addresses';
import { type Backoff, backoff } from '@wellspring/core/backoff';
import type { RegistrySettings } from './settings.ts';

/** Request Timeout, Too Early, Too Many Requests. */
const TRANSIENT: ReadonlySet<number> = new Set([408, 425, 429]);

/** The registry answered with a status other than 200. */
export class RegistryStatus extends Error {
  override readonly name = 'RegistryStatus';
  readonly status: number;
  constructor(status: number) {
    super(`the registry answered with status ${status}`);
    this.status = status;
  }
  /** Whether a later request would have the same answer: not of a failing registry, or one that limits requests. */
  get isPermanent(): boolean {
    return this.status < 500 && !TRANSIENT.has(this.status);
  }
}

/** The answer of the registry cannot be used, and a retry does not help. */
export class RegistryRefused extends Error {
  override readonly name = 'RegistryRefused';
}

/** Requests to the configured registries. */
export interface Upstream {
  /**
   * Sends a GET request with the credentials of the URL.
   * @returns the decoded body, which the caller has to read or destroy
   * @throws RegistryStatus, RegistryRefused (redirect to a refused address), Error (connection failed)
   */
  get(url: string, options: { accept: string }): Promise<Readable>;
  close(): void;
}

const MAX_REDIRECTS = 3;
/** A connection is closed after this time without data. */
const IDLE_MS = 30_000;
const RETRY_BACKOFF: Backoff = { baseMs: 300, maxMs: 5_000 };

const isPublic = createAddressGuard([]);

/**
 * Resolves a name to its public addresses, so that a redirect does not lead into a private network.
 * @param exempt names of the configured proxies, which resolve target names themselves
 */
function publicLookup(exempt: ReadonlySet<string>): LookupFunction {
  return (hostname, options, callback) => {
    resolveName(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, '');
      const addresses = exempt.has(hostname) ? found : found.filter(({ address }) => isPublic(address));
      const [first] = addresses;
      if (!first) return callback(new RegistryRefused(`${hostname} is not a public address`), '');
      if (options.all) callback(null, addresses);
      else callback(null, first.address, first.family);
    });
  };
}

const hostOf = (url: string | undefined) =>
  url !== undefined && URL.canParse(url) ? [new URL(url).hostname] : [];

export function createUpstream(settings: RegistrySettings): Upstream {
  const { proxy, certificates, strictSsl } = settings;
  const options = {
    keepAlive: true,
    maxSockets: 24,
    proxyEnv: proxy,
    ...(certificates.length > 0 ? { ca: [...getCACertificates('default'), ...certificates] } : {}),
    ...(strictSsl ? {} : { rejectUnauthorized: false }),
  };
  const createAgents = () => ({ 'http:': new http.Agent(options), 'https:': new https.Agent(options) });
  const agents = createAgents();
  // Separate agents, since kept-alive connections to a registry were opened without the address check.
  const agentsOfRedirects = createAgents();
  const lookup = publicLookup(new Set([...hostOf(proxy.HTTP_PROXY), ...hostOf(proxy.HTTPS_PROXY)]));

  function request(url: URL, accept: string, isOwn: boolean) {
    return new Promise<IncomingMessage>((resolve, reject) => {
      const { protocol, hostname } = url;
      if (protocol !== 'http:' && protocol !== 'https:')
        throw new RegistryRefused(`the registry redirects to a URL with the scheme ${protocol}`);
      const literal = hostname.replace(/^\[|\]$/g, '');
      if (!isOwn && isIP(literal) !== 0 && !isPublic(literal))
        throw new RegistryRefused(`the registry redirects to ${literal}, which is not a public address`);
      const authorization = isOwn ? settings.authorizationFor(url.href) : undefined;
      const sent = (protocol === 'https:' ? https : http).get(url, {
        agent: (isOwn ? agents : agentsOfRedirects)[protocol],
        timeout: IDLE_MS,
        headers: {
          accept,
          'accept-encoding': 'gzip',
          'user-agent': 'wellspring',
          ...(authorization === undefined ? {} : { authorization }),
        },
        ...(isOwn ? {} : { lookup }),
      });
      sent.on('response', resolve);
      sent.on('timeout', () => sent.destroy(new Error('The registry does not answer')));
      sent.on('error', reject);
    });
  }

  async function follow(first: string, accept: string): Promise<Readable> {
    const { host, protocol } = new URL(first);
    /** Same host, and not without TLS where the registry has it. */
    const isOwn = (target: URL) =>
      target.host === host && (target.protocol === protocol || target.protocol === 'https:');
    let url = new URL(first);
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects += 1) {
      const response = await request(url, accept, isOwn(url));
      const { statusCode = 0, headers } = response;
      if (statusCode === 200) {
        if (headers['content-encoding'] !== 'gzip') return response;
        const plain = createGunzip();
        response.on('error', (error) => plain.destroy(error));
        plain.on('close', () => response.destroy());
        return response.pipe(plain);
      }
      response.destroy();
      if (![301, 302, 303, 307, 308].includes(statusCode) || headers.location === undefined)
        throw new RegistryStatus(statusCode);
      if (!URL.canParse(headers.location, url)) throw new RegistryRefused('the registry redirects to no URL');
      url = new URL(headers.location, url);
    }
    throw new RegistryRefused('the registry redirects too often');
  }

  return {
    async get(url, { accept }) {
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await follow(url, accept);
        } catch (error) {
          const permanent =
            error instanceof RegistryRefused || (error instanceof RegistryStatus && error.isPermanent);
          if (permanent || attempt > settings.retries) throw error;
          await pause(backoff(attempt, RETRY_BACKOFF));
        }
      }
    },
    close() {
      for (const agent of [agents, agentsOfRedirects].flatMap(Object.values<http.Agent>)) agent.destroy();
    },
  };
}

/** Limits for reading a body into memory. */
interface BodyLimits {
  maxBytes: number;
  /** Above, `takeTurn` is awaited once. */
  smallBytes: number;
  takeTurn(): Promise<void>;
}

/** Reads a body into memory. @throws RegistryRefused if it exceeds `maxBytes` */
export async function readBody(
  body: Readable,
  { maxBytes, smallBytes, takeTurn }: BodyLimits,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  let hasTurn = false;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > smallBytes && !hasTurn) {
      await takeTurn();
      hasTurn = true;
    }
    if (size > maxBytes) {
      body.destroy();
      throw new RegistryRefused(`the answer of the registry has more than ${maxBytes} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
