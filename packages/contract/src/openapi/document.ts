import type { Endpoint } from '../endpoint.ts';
import { endpoints } from '../endpoints/all.ts';
import { PLATFORM_VERSION } from '../limits.ts';
import { operation } from './operation.ts';
import { createSchemas } from './schemas.ts';

export const PREFIX = { public: '/v1', operator: '/admin/v1' } as const;

const TITLES = {
  public: {
    title: 'Wellspring',
    description:
      'Event sources: deploy components, receive their events by webhook, subscription and stream. Fields that an operation does not know, and values for props that a deployed or tested component does not have, are ignored and named in the response header x-wellspring-ignored.',
    key: 'An API key',
  },
  operator: {
    title: 'Wellspring operator API',
    description:
      'Users, organizations, the registry and dead letters. It listens on a port of its own, which should not be public.',
    key: 'The operator key, WELLSPRING_ADMIN_KEY',
  },
} as const;

/** The OpenAPI 3.1 document of one listener, made from the declared endpoints. */
export function openApiDocument(listener: Endpoint['listener']): Record<string, unknown> {
  const declared = (Object.values(endpoints) as Endpoint[]).filter((one) => one.listener === listener);
  const { title, description, key } = TITLES[listener];
  const schemas = createSchemas();
  const paths: Record<string, Record<string, unknown>> = {};
  for (const endpoint of declared) {
    const { path, method } = endpoint;
    paths[path] = { ...paths[path], [method.toLowerCase()]: operation(endpoint, declared, schemas) };
  }
  return {
    openapi: '3.1.0',
    info: { title, version: PLATFORM_VERSION, description, license: { name: 'Apache-2.0' } },
    servers: [{ url: PREFIX[listener] }],
    security: [{ key: [] }],
    tags: [...new Set(declared.map(({ service }) => service))].map((name) => ({ name })),
    paths,
    components: {
      securitySchemes: { key: { type: 'http', scheme: 'bearer', description: key } },
      schemas: schemas.all(),
    },
  };
}
