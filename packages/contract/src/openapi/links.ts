import type { Endpoint } from '../endpoint.ts';

const DATA_ID = '$response.body#/data/id';

/**
 * OpenAPI links from an operation that creates something to the operations on it: `POST /sources` → `/sources/{id}…`.
 * Streams are left out, since they do not end.
 */
export function linksOf(endpoint: Endpoint, others: readonly Endpoint[]): Record<string, unknown> {
  if (endpoint.method !== 'POST' || endpoint.envelope !== 'single' || endpoint.path.includes('{')) return {};
  const item = new RegExp(`^${endpoint.path.replace(/[$]/g, '\\$&')}/\\{(\\w+)\\}`);
  return Object.fromEntries(
    others.flatMap(({ operationId, path, envelope }) => {
      const parameter = item.exec(path)?.[1];
      const others = [...path.matchAll(/\{(\w+)\}/g)].length > 1;
      if (parameter === undefined || others || envelope === 'stream') return [];
      return [[operationId, { operationId, parameters: { [parameter]: DATA_ID } }]];
    }),
  );
}
