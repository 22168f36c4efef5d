import type { TSchema } from 'typebox';
import type { Endpoint } from '../endpoint.ts';
import * as resources from '../resources.ts';
import { EXAMPLES } from './examples.ts';
import { nameOf, type Schemas } from './schemas.ts';

type Json = Record<string, unknown>;

const object = (properties: Json) => ({ type: 'object', required: Object.keys(properties), properties });

/** With include and exclude, a resource has some of its fields only. */
function selectable({ input, output }: Endpoint, schemas: Schemas): Json {
  const whole = schemas.reference(output);
  const name = nameOf(output);
  if (!('include' in input.properties) || name === undefined || name === 'Nothing') return whole;
  const { required: _, description: __, ...some } = schemas.plain(output);
  const selection = schemas.named(`${name}Selection`, {
    description: `The fields of ${name} that include and exclude leave`,
    ...some,
  });
  return { anyOf: [whole, selection] };
}

const exampleOf = (output: TSchema): unknown => {
  const name = nameOf(output);
  return name === undefined ? undefined : EXAMPLES[name as keyof typeof EXAMPLES];
};

const json = (schema: unknown, example?: unknown) => ({
  'application/json': { schema, ...(example !== undefined && { example }) },
});

function content(endpoint: Endpoint, schemas: Schemas): Json | undefined {
  const { envelope, output } = endpoint;
  const example = exampleOf(output);
  switch (envelope) {
    case 'single':
      return json(object({ data: selectable(endpoint, schemas) }), { data: example });
    case 'list':
      return json(object({ data: { type: 'array', items: selectable(endpoint, schemas) } }), {
        data: [example],
      });
    case 'page':
      return json(
        object({
          page_info: schemas.reference(resources.PageInfo),
          data: { type: 'array', items: selectable(endpoint, schemas) },
        }),
        { page_info: EXAMPLES.PageInfo, data: [example] },
      );
    case 'null':
      return json(object({ data: { type: 'null' } }), { data: null });
    case 'stream':
      // One schema for the data line of each frame.
      return {
        'text/event-stream': {
          schema: schemas.reference(output),
          example: `retry: 3000\n\nid: 1606370816223-0\ndata: ${JSON.stringify(example)}\n\n`,
        },
      };
    case 'raw':
      return json({ type: 'object' });
    case 'none':
      return undefined;
  }
}

const MEANINGS: Record<number, string> = {
  400: 'A parameter is missing or invalid; param names it',
  401: 'No valid API key',
  403: 'Not a member of the organization',
  404: 'Unknown, or not yours',
  409: 'In conflict with the present state',
  410: 'It does not exist any more',
  413: 'The body is too large',
  415: 'The body is not JSON',
  429: 'Too many requests, or a quota is used up; see Retry-After',
  500: 'An unexpected failure; the log has its details under request_id',
  503: 'A server behind the platform does not answer, or memory is short; repeat the call after Retry-After',
};

/** Refused before the request is read: without a body and an id. */
const HEADERS_TOO_LARGE = { 431: { description: 'URL and headers have more than 16 KB' } };

const REQUEST_ID = {
  'x-request-id': { description: 'Id of the request in logs', schema: { type: 'string' } },
};
const IGNORED = {
  'x-wellspring-ignored': {
    description: 'Names of ignored body fields, query parameters and values of unknown props',
    schema: { type: 'string' },
  },
};
const RETRY_AFTER = { 'retry-after': { description: 'Seconds', schema: { type: 'string' } } };

function errorStatuses({ method, path, listener, authenticated, problems, input }: Endpoint): number[] {
  const bodyStatuses = method === 'GET' ? [] : [413, 415];
  // An Idempotency-Key that was used with another request.
  const repeatable = listener === 'public' && method === 'POST' ? [409] : [];
  const inOrg = 'org_id' in input.properties ? [403] : [];
  const keyed = authenticated ? [401, ...(listener === 'public' ? [429] : [])] : [];
  const unknown = path.includes('{') ? [404] : [];
  const all = [400, ...keyed, ...bodyStatuses, ...repeatable, ...inOrg, ...unknown, ...problems, 500, 503];
  return [...new Set(all)].sort((a, b) => a - b);
}

/** The responses of an endpoint by status; `links` belong to its success. */
export function responses(endpoint: Endpoint, links: Json, schemas: Schemas): Json {
  const body = content(endpoint, schemas);
  const error = json(schemas.reference(resources.ErrorBody), EXAMPLES.ErrorBody);
  return {
    [endpoint.status]: {
      description: 'Success',
      headers: { ...REQUEST_ID, ...IGNORED },
      ...(body && { content: body }),
      ...(Object.keys(links).length > 0 && { links }),
    },
    ...Object.fromEntries(
      errorStatuses(endpoint).map((code) => [
        code,
        {
          description: MEANINGS[code] ?? 'Error',
          headers: { ...REQUEST_ID, ...(code === 429 || code === 503 ? RETRY_AFTER : {}) },
          content: error,
        },
      ]),
    ),
    ...HEADERS_TOO_LARGE,
  };
}
