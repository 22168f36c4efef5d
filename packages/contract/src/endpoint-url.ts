interface EndpointConfig {
  publicUrl: string;
  endpointDomain: string | null;
}

/** The URL of an HTTP interface: a separate host below the endpoint domain, or else a path. No trailing slash. */
export function endpointUrl({ publicUrl, endpointDomain }: EndpointConfig, key: string): string {
  return endpointDomain === null ? `${publicUrl}/e/${key}` : `https://${key}.${endpointDomain}`;
}

/**
 * Reads the Host header of a request: the host, in lower case, without port and trailing dot, and the key when it is that
 * of a single endpoint; undefined on the origin shared with the API.
 */
export function ownHostOf(
  { endpointDomain }: Pick<EndpointConfig, 'endpointDomain'>,
  hostHeader: string | undefined,
): { host: string; key: string } | undefined {
  if (endpointDomain === null) return undefined;
  const host = withoutPort(hostHeader ?? '')
    .toLowerCase()
    .replace(/\.$/, '');
  const end = `.${withoutPort(endpointDomain)}`;
  return host.endsWith(end) ? { host, key: host.slice(0, -end.length) } : undefined;
}

const KEY = /^e[a-z0-9_-]{25,63}$/;
export const isEndpointKey = (key: string): boolean => KEY.test(key);

const withoutPort = (host: string) => host.split(':', 1)[0]!;
