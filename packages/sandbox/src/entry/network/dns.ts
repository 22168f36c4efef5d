import dns from 'node:dns';
import net from 'node:net';
import { promisify } from 'node:util';
import type { FoundAddress, Question } from '../../egress/wire.ts';
import { ask, type Channel } from './channel.ts';
import { notAllowed, toError } from './errors.ts';

type Callback = (error: Error | null, ...values: unknown[]) => void;
interface LookupOptions {
  family?: number | 'IPv4' | 'IPv6';
  all?: boolean;
}

/** Seconds; the relay does not know the real TTL. */
const TTL = 60;
const METHODS: Record<string, string> = {
  resolve4: 'A',
  resolve6: 'AAAA',
  resolveCaa: 'CAA',
  resolveCname: 'CNAME',
  resolveMx: 'MX',
  resolveNaptr: 'NAPTR',
  resolveNs: 'NS',
  resolvePtr: 'PTR',
  resolveSoa: 'SOA',
  resolveSrv: 'SRV',
  resolveTxt: 'TXT',
};
const ABSENT = ['reverse', 'resolveAny', 'resolveTlsa', 'lookupService', 'setServers'];

/** Replaces look-ups of names by questions to the relay. @returns a function that returns the default `lookup` */
export function patchDns(channel: Channel): () => unknown {
  async function askRelay(question: Question & { id: number }) {
    const answer = await ask(channel, question);
    if ('failed' in answer) throw toError(answer.failed);
    return answer;
  }

  async function addressesOf(host: string, family: number): Promise<FoundAddress[]> {
    const answer = await askRelay({ id: channel.nextId(), lookup: host });
    const all = 'found' in answer ? answer.found : [];
    const found = family === 0 ? all : all.filter((one) => one.family === family);
    if (found.length === 0)
      throw toError({
        code: 'ENOTFOUND',
        syscall: 'getaddrinfo',
        hostname: host,
        message: `getaddrinfo ENOTFOUND ${host}`,
      });
    return found;
  }

  async function lookupAsync(hostname: string, given?: number | LookupOptions) {
    const options = typeof given === 'object' && given !== null ? given : { family: given ?? 0 };
    const family = Number(String(options.family ?? 0).slice(-1));
    const version = net.isIP(hostname) as 0 | 4 | 6;
    const found =
      version === 0 ? await addressesOf(hostname, family) : [{ address: hostname, family: version }];
    return (options as LookupOptions).all === true ? found : found[0]!;
  }

  function lookup(hostname: string, ...rest: unknown[]): void {
    const callback = rest.at(-1) as Callback;
    if (typeof callback !== 'function')
      throw new TypeError('The "callback" argument must be of type function.');
    const options = rest.length > 1 ? (rest[0] as LookupOptions) : undefined;
    lookupAsync(hostname, options).then(
      (found) =>
        process.nextTick(() =>
          Array.isArray(found) ? callback(null, found) : callback(null, found.address, found.family),
        ),
      (error: Error) => process.nextTick(() => callback(error)),
    );
  }
  Object.defineProperty(lookup, promisify.custom, { value: lookupAsync });

  async function resolveAsync(host: string, type = 'A', options?: { ttl?: boolean }): Promise<unknown> {
    if (type !== 'A' && type !== 'AAAA') {
      const answer = await askRelay({ id: channel.nextId(), resolve: host, type });
      return 'records' in answer ? answer.records : [];
    }
    const found = await addressesOf(host, type === 'A' ? 4 : 6);
    return found.map(({ address }) => (options?.ttl ? { address, ttl: TTL } : address));
  }

  const withCallback = (name: string, work: (...args: unknown[]) => Promise<unknown>) =>
    Object.defineProperty(
      (...args: unknown[]) => {
        const callback = args.at(-1) as Callback;
        if (typeof callback !== 'function')
          throw new TypeError('The "callback" argument must be of type function.');
        work(...args.slice(0, -1)).then(
          (value) => process.nextTick(() => callback(null, value)),
          (error: Error) => process.nextTick(() => callback(error)),
        );
      },
      'name',
      { value: name },
    );

  const promised: Record<string, (...args: never[]) => Promise<unknown>> = { resolve: resolveAsync as never };
  for (const [name, type] of Object.entries(METHODS)) {
    promised[name] = ((host: string, options?: { ttl?: boolean }) =>
      resolveAsync(host, type, options)) as never;
  }
  const callbacks = Object.fromEntries(
    Object.entries(promised).map(([name, work]) => [name, withCallback(name, work as never)]),
  );
  for (const name of ABSENT) {
    const refuse = () => {
      throw notAllowed(`code may not use dns.${name}()`, name);
    };
    promised[name] = refuse as never;
    callbacks[name] = refuse;
  }

  Object.assign(dns, callbacks, { lookup, getServers: () => [] });
  Object.assign(dns.promises, promised, { lookup: lookupAsync, getServers: () => [] });
  for (const [owner, methods] of [
    [dns.Resolver.prototype, callbacks],
    [dns.promises.Resolver.prototype, promised],
  ] as const) {
    const { lookupService: _, ...own } = methods as Record<string, unknown>;
    Object.assign(owner, own, { getServers: () => [], cancel() {}, setLocalAddress() {} });
  }
  return () => lookup;
}
