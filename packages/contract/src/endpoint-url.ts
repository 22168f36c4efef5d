/** The address of an HTTP interface: a host of its own below the endpoint domain, else a path. No trailing slash. */
export function endpointUrl(
  { publicUrl, endpointDomain }: { publicUrl: string; endpointDomain: string | null },
  key: string,
): string {
  return endpointDomain === null ? `${publicUrl}/e/${key}` : `https://${key}.${endpointDomain}`;
}
