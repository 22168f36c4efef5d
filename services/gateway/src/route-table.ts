import type { Endpoint } from '@wellspring/contract/endpoint';

export type Match =
  | { kind: 'endpoint'; endpoint: Endpoint }
  /** The path exists with other methods only. */
  | { kind: 'method'; allow: string[] }
  | { kind: 'unknown' };

const segmentsOf = (path: string) => path.split('/').filter(Boolean);
const isParam = (segment: string) => segment.startsWith('{');

/** Finds endpoints by method and path; literal segments precede parameters, a trailing slash is ignored. */
export function createRouteTable(endpoints: readonly Endpoint[]): (method: string, path: string) => Match {
  const byLength = new Map<number, { segments: string[]; endpoint: Endpoint }[]>();
  for (const endpoint of endpoints) {
    const segments = segmentsOf(endpoint.path);
    byLength.set(segments.length, [...(byLength.get(segments.length) ?? []), { segments, endpoint }]);
  }
  const literals = (segments: string[]) => segments.filter((segment) => !isParam(segment)).length;
  for (const entries of byLength.values())
    entries.sort((a, b) => literals(b.segments) - literals(a.segments));

  return (method, path) => {
    const asked = segmentsOf(path);
    const wanted = method === 'HEAD' ? 'GET' : method;
    const matching = (byLength.get(asked.length) ?? []).filter(({ segments }) =>
      segments.every((segment, index) => isParam(segment) || segment === asked[index]),
    );
    const best = matching[0] ? literals(matching[0].segments) : 0;
    const same = matching.filter(({ segments }) => literals(segments) === best);
    const found = same.find(({ endpoint }) => endpoint.method === wanted);
    if (found) return { kind: 'endpoint', endpoint: found.endpoint };
    if (same.length === 0) return { kind: 'unknown' };
    const allow = same.map(({ endpoint }) => endpoint.method);
    return { kind: 'method', allow: [...allow, ...(allow.includes('GET') ? ['HEAD'] : [])] };
  };
}
