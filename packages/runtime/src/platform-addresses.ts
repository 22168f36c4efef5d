import type { PlatformAddresses, PlatformEndpoint } from '@wellspring/sandbox/egress/policy';
import type { Config } from './config.ts';

const DEFAULT_PORTS: Record<string, number> = {
  'amqp:': 5672,
  'amqps:': 5671,
  'redis:': 6379,
  'rediss:': 6379,
  'mongodb:': 27017,
  'smtp:': 587,
  'smtps:': 465,
  'http:': 80,
  'https:': 443,
};
/** Every name below the endpoint domain resolves to the platform; this one represents them. */
const ANY_ENDPOINT = 'wellspring-endpoint';

/** Host and port of a URL, also of one with several hosts (`mongodb://one:1,two:2/name`). */
function endpointsOf(url: string): PlatformEndpoint[] {
  const [, protocol = '', authority = ''] = /^([a-z+]+:)\/\/(?:[^@/?#]*@)?([^/?#]*)/i.exec(url) ?? [];
  return authority.split(',').flatMap((one) => {
    const [, host = '', port] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(one.trim()) ?? [];
    if (host === '') return [];
    return [
      {
        host: host.replace(/^\[|\]$/g, '').toLowerCase(),
        port: Number(port ?? DEFAULT_PORTS[protocol] ?? 0),
      },
    ];
  });
}

/** Addresses that user code never reaches, even if allowed: listeners, public names and servers of the platform. */
export function platformAddresses(config: Config): PlatformAddresses {
  const { port, adminPort, publicUrl, endpointDomain, services } = config;
  const [open] = endpointsOf(publicUrl);
  const names = open ? [{ name: open.host, below: false }] : [];
  const endpoints: PlatformEndpoint[] = open ? [open] : [];
  if (endpointDomain !== null) {
    const [domain, domainPort] = endpointDomain.split(':') as [string, string | undefined];
    names.push({ name: domain, below: true });
    for (const host of [domain, `${ANY_ENDPOINT}.${domain}`]) {
      for (const one of domainPort === undefined ? [80, 443, open?.port ?? 443] : [Number(domainPort)])
        endpoints.push({ host, port: one });
    }
  }
  for (const url of [config.amqpUrl, config.redisUrl, config.mongodbUrl]) {
    if (url !== null) endpoints.push(...endpointsOf(url));
  }
  // Code may use a public mail server or object store with its own credentials.
  for (const url of [config.s3Url, config.sendS3Url, config.smtpUrl]) {
    if (url !== null) endpoints.push(...endpointsOf(url).map((one) => ({ ...one, onlyPrivate: true })));
  }
  const listenerPorts = [port, adminPort];
  if (config.mode === 'embedded') return { names, listenerPorts, endpoints };
  // Addresses of services in other processes.
  for (const name of ['components', 'sources', 'subscriptions', 'webhooks', 'events'] as const) {
    if (!services.includes(name)) endpoints.push(...config[`${name}Url`].flatMap(endpointsOf));
  }
  return { names, listenerPorts, privatePorts: [adminPort], endpoints };
}
