import type { TSchema } from 'typebox';
import type { Endpoint } from '../endpoint.ts';
import { common } from '../endpoints/parameters.ts';
import { exampleOfPath } from './examples.ts';
import { linksOf } from './links.ts';
import { responses } from './responses.ts';
import type { Schemas } from './schemas.ts';

type Json = Record<string, unknown>;

/** Fields of an endpoint's input by place. A path parameter is not among them. */
function placesOf({ method, path, query, input }: Endpoint) {
  const inQuery = (name: string) =>
    method === 'GET' || method === 'DELETE' || name in common || (query?.includes(name) ?? false);
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
  const fields = (Object.entries(input.properties) as [string, TSchema][]).filter(
    ([name]) => !inPath.includes(name),
  );
  return {
    inPath,
    inQuery: fields.filter(([name]) => inQuery(name)),
    inBody: fields.filter(([name]) => !inQuery(name)),
    required: new Set<string>((input as { required?: string[] }).required ?? []),
  };
}

const IDEMPOTENCY_KEY = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description:
    'Makes the call repeatable for a day: a further call with the same key and request gets the stored response',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
  example: '4be0a1d6-9f0e-4a06-9a4c-0b8f1f8f3c5e',
};

const LAST_EVENT_ID = {
  name: 'Last-Event-ID',
  in: 'header',
  required: false,
  description: 'Id of the last event received: the stream continues after it, without a gap',
  schema: { type: 'string' },
  example: '1606370816223-0',
};

function parametersOf(endpoint: Endpoint, schemas: Schemas): Json[] {
  const { inPath, inQuery, required } = placesOf(endpoint);
  return [
    ...inPath.map((name) => ({
      name,
      in: 'path',
      required: true,
      ...exampleOfPath(endpoint.path, name),
      schema: { type: 'string', minLength: 1 },
    })),
    ...inQuery.map(([name, schema]) => {
      const { description, ...rest } = schemas.plain(schema);
      return {
        name,
        in: 'query',
        required: required.has(name),
        ...(description !== undefined && { description }),
        schema: rest,
      };
    }),
    ...(endpoint.listener === 'public' && endpoint.method === 'POST' ? [IDEMPOTENCY_KEY] : []),
    ...(endpoint.envelope === 'stream' ? [LAST_EVENT_ID] : []),
  ];
}

const capitalised = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** One of the fields, or more, is given and not null. */
const atLeastOne = (names: readonly string[]) => ({
  anyOf: names.map((name) => ({ required: [name], properties: { [name]: { type: 'string' } } })),
});

/** The body as a named schema, `<Operation>Body`. Undefined for an endpoint without body fields. */
function bodyOf(endpoint: Endpoint, schemas: Schemas): Json | undefined {
  const { inBody, required } = placesOf(endpoint);
  if (inBody.length === 0) return undefined;
  const needed = inBody.map(([name]) => name).filter((name) => required.has(name));
  const schema = schemas.named(`${capitalised(endpoint.operationId)}Body`, {
    type: 'object',
    properties: Object.fromEntries(inBody.map(([name, field]) => [name, schemas.plain(field)])),
    ...(needed.length > 0 && { required: needed }),
    ...(endpoint.atLeastOne && atLeastOne(endpoint.atLeastOne)),
  });
  return {
    required: needed.length > 0 || endpoint.atLeastOne !== undefined,
    content: { 'application/json': { schema, example: endpoint.example ?? {} } },
  };
}

/** The OpenAPI operation of an endpoint. `others`: the endpoints of the same document, for links. */
export function operation(endpoint: Endpoint, others: readonly Endpoint[], schemas: Schemas): Json {
  const requestBody = bodyOf(endpoint, schemas);
  return {
    operationId: endpoint.operationId,
    summary: endpoint.summary,
    description:
      endpoint.description + (endpoint.unversioned ? ' It is also reachable without the prefix /v1.' : ''),
    tags: [endpoint.service],
    ...(endpoint.authenticated ? {} : { security: [] }),
    parameters: parametersOf(endpoint, schemas),
    ...(requestBody && { requestBody }),
    responses: responses(endpoint, linksOf(endpoint, others), schemas),
  };
}
