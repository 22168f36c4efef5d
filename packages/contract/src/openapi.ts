import type { TSchema } from 'typebox';
import type { Endpoint, Envelope } from './endpoint.ts';
import { endpoints } from './endpoints/all.ts';
import { common } from './endpoints/parameters.ts';
import { PLATFORM_VERSION } from './limits.ts';
import * as resources from './resources.ts';

/** The OpenAPI 3.1 document of the public API, made from the declared endpoints. */
export function openApiDocument(): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const endpoint of Object.values(endpoints) as Endpoint[]) {
    if (endpoint.listener !== 'public') continue;
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method.toLowerCase()]: operation(endpoint) };
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Wellspring',
      version: PLATFORM_VERSION,
      description:
        'Event sources: deploy components, receive their events by webhook, subscription and stream.',
    },
    servers: [{ url: '/v1' }],
    security: [{ key: [] }],
    paths,
    components: {
      securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'An API key' } },
      schemas: schemasUsedBy(paths),
    },
  };
}

const RESOURCES: Record<string, TSchema> = { ...resources };
const NAMED = new Map<unknown, string>(Object.entries(RESOURCES).map(([name, schema]) => [schema, name]));
const SCHEMAS = '#/components/schemas/';

/** A schema as plain JSON, with references to resources. */
const plain = (schema: TSchema): unknown =>
  JSON.parse(
    JSON.stringify(schema, (key, value) =>
      key !== '' && NAMED.has(value) ? { $ref: SCHEMAS + NAMED.get(value) } : value,
    ),
  );

const reference = (schema: TSchema): unknown =>
  NAMED.has(schema) ? { $ref: SCHEMAS + NAMED.get(schema) } : plain(schema);

/** The resources to which paths refer, directly or through other resources. */
function schemasUsedBy(paths: unknown): Record<string, unknown> {
  const schemas: Record<string, unknown> = {};
  const follow = (part: unknown) => {
    for (const [, name] of JSON.stringify(part).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      if (name === undefined || name in schemas) continue;
      schemas[name] = plain(RESOURCES[name]!);
      follow(schemas[name]);
    }
  };
  follow(paths);
  return Object.fromEntries(Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1)));
}

const json = (schema: unknown) => ({ 'application/json': { schema } });
const object = (properties: Record<string, unknown>) => ({
  type: 'object',
  required: Object.keys(properties),
  properties,
});

function content(envelope: Envelope, output: TSchema): unknown {
  const one = reference(output);
  const many = { type: 'array', items: one };
  switch (envelope) {
    case 'single':
      return json(object({ data: one }));
    case 'list':
      return json(object({ data: many }));
    case 'page':
      return json(object({ page_info: reference(resources.PageInfo), data: many }));
    case 'null':
      return json(object({ data: { type: 'null' } }));
    case 'stream':
      return { 'text/event-stream': { schema: { type: 'string' } } };
    case 'raw':
      return json({});
    case 'none':
      return undefined;
  }
}

const MEANINGS: Record<number, string> = {
  400: 'A parameter is missing or invalid',
  401: 'No valid API key',
  403: 'Not a member of the organization',
  404: 'Unknown, or not yours',
  409: 'In conflict with the present state',
  413: 'The body is too large',
  415: 'The body is not JSON',
  429: 'Too many requests; see Retry-After',
  500: 'A fault of the service',
};

function operation(endpoint: Endpoint): unknown {
  const { method, input, envelope, output, status } = endpoint;
  const inQuery = (name: string) =>
    method === 'GET' || method === 'DELETE' || name in common || (endpoint.query?.includes(name) ?? false);
  const inPath = [...endpoint.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  const fields = (Object.entries(input.properties) as [string, TSchema][]).filter(
    ([name]) => !inPath.includes(name),
  );
  const required = new Set((input as { required?: string[] }).required ?? []);
  const parameters = [
    ...inPath.map((name) => ({
      name,
      in: 'path',
      required: true,
      schema: { type: 'string' },
    })),
    ...fields
      .filter(([name]) => inQuery(name))
      .map(([name, schema]) => {
        const { description, ...rest } = plain(schema) as { description?: string };
        return {
          name,
          in: 'query',
          required: required.has(name),
          ...(description && { description }),
          schema: rest,
        };
      }),
  ];
  const inBody = fields.filter(([name]) => !inQuery(name));
  const problems = [400, ...(endpoint.authenticated ? [401] : []), ...endpoint.problems, 429, 500].sort(
    (a, b) => a - b,
  );
  const body = content(envelope, output);
  return {
    operationId: endpoint.operationId,
    summary: endpoint.summary,
    tags: [endpoint.service],
    ...(endpoint.authenticated ? {} : { security: [] }),
    ...(endpoint.unversioned ? { description: 'Also reachable without /v1.' } : {}),
    parameters,
    ...(inBody.length === 0
      ? {}
      : {
          requestBody: {
            content: json({
              type: 'object',
              properties: Object.fromEntries(inBody.map(([name, schema]) => [name, plain(schema)])),
              ...(inBody.some(([name]) => required.has(name))
                ? { required: inBody.map(([name]) => name).filter((name) => required.has(name)) }
                : {}),
            }),
          },
        }),
    responses: {
      [status]: { description: 'Success', ...(body === undefined ? {} : { content: body }) },
      ...Object.fromEntries(
        problems.map((code) => [
          code,
          { description: MEANINGS[code] ?? 'Error', content: json(reference(resources.ErrorBody)) },
        ]),
      ),
    },
  };
}
