import { beforeAll, describe, expect, test } from '@jest/globals';
import type { Endpoint } from '@wellspring/contract/endpoint';
import { endpoints } from '@wellspring/contract/endpoints/all';
import { openApiDocument } from '@wellspring/contract/openapi';
import { Ajv2020 } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { type Response, send } from './http.ts';
import { platform, usePlatform } from './platform.fixture.ts';

/**
 * Every endpoint of both APIs, with generated requests, valid and invalid: no answer is a 5xx, and each has a documented
 * status and the documented shape.
 */

const RUNS = 30;
/** Sources and webhooks, since some requests delete them. */
const COPIES = 5;
const TIMEOUT_MS = 120_000;
const PREFIX = { public: '/v1', operator: '/admin/v1' } as const;

const CODE = `export default { name: 'Echo', version: '1.0.0', key: 'echo', props: { http: '$.interface.http' },
  run(event) { this.$emit(event.body ?? null); } };`;

/** Ids of things that exist, until a generated request deletes them. */
const known: string[] = ['echo', 'echo@1.0.0'];
usePlatform();
beforeAll(async () => {
  const { client, operator } = platform;
  for (let n = 0; n < COPIES; n++) {
    const source = await client.createSource({ component_code: CODE });
    const webhook = await client.createWebhook({ url: 'http://127.0.0.1:9/' });
    const { id } = await client.createSubscription({ emitter_id: source.id, listener_id: webhook.id });
    const { run_id } = await client.runSource({ id: source.id });
    known.push(source.id, source.component_id, webhook.id, id, run_id);
  }
  const org = await operator.operatorCreateOrg({ orgname: 'acme', name: 'Acme', email: 'a@example.com' });
  const user = await operator.operatorCreateUser({ username: 'bob', email: 'b@example.com' });
  known.push(org.id, user.id);
});

type Schema = Record<string, unknown>;

const hostile = fc.constantFrom<unknown>(
  ...[
    '',
    ' ',
    '*',
    'dc_*',
    '__proto__',
    'constructor',
    '../..',
    '%00',
    '💥',
    '\ud800',
    'null',
    '-1',
    '1e999',
  ],
  ...[null, 0, -1, 2 ** 53, 1.5, true, [], {}, [[]], { $gt: '' }, { __proto__: null, length: 1 }],
);
/** Read when a value is drawn: the ids exist only then. */
const idText = fc.nat().map((n) => known[n % known.length]!);
/** First segment of a path → prefix of the ids that fit its parameter. */
const KINDS: Record<string, string> = {
  sources: 'dc_',
  components: 'sc_',
  webhooks: 'wh_',
  subscriptions: 'sub_',
  runs: 'run_',
  orgs: 'o_',
  users: 'u_',
};
const fitting = (path: string) =>
  fc.nat().map((n) => {
    const ids = known.filter((id) => id.startsWith(KINDS[path.split('/')[1]!] ?? ''));
    return ids[n % ids.length] ?? '0';
  });
const text = fc.oneof(idText, fc.string(), fc.string({ unit: 'binary', maxLength: 300 }));

/** Values of a declared field, and now and then anything else. */
function anyOr(schema: Schema): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 4, arbitrary: fits(schema) }, { weight: 1, arbitrary: hostile });
}

function fits(schema: Schema): fc.Arbitrary<unknown> {
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum);
  if ('const' in schema) return fc.constant(schema.const);
  if (Array.isArray(schema.anyOf)) return fc.oneof(...(schema.anyOf as Schema[]).map(fits));
  switch (schema.type) {
    case 'string':
      return text;
    case 'integer':
      return fc.integer();
    case 'number':
      return fc.double();
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array':
      return fc.array(fits((schema.items ?? {}) as Schema), { maxLength: 3 });
    case 'object': {
      const fields = Object.entries((schema.properties ?? {}) as Record<string, Schema>);
      if (fields.length === 0)
        return fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 });
      return fc.record(Object.fromEntries(fields.map(([name, field]) => [name, anyOr(field)])), {
        requiredKeys: [],
      });
    }
    default:
      return fc.jsonValue({ maxDepth: 3 });
  }
}

interface Request {
  path: string[];
  query: Record<string, unknown>;
  body: unknown;
  authorized: boolean;
}

function requestOf({ path, method, input }: Endpoint): fc.Arbitrary<Request> {
  const fields = Object.entries(input.properties as Record<string, Schema>);
  const given = fc.record(Object.fromEntries(fields.map(([name, schema]) => [name, anyOr(schema)])), {
    requiredKeys: [],
  });
  const parameters = path.match(/\{\w+\}/g)?.length ?? 0;
  const none = fc.constant({});
  return fc.record({
    path: fc.array(fc.oneof({ weight: 2, arbitrary: fitting(path) }, { weight: 1, arbitrary: text }), {
      minLength: parameters,
      maxLength: parameters,
    }),
    query: method === 'GET' || method === 'DELETE' ? given : fc.oneof(none, given),
    body:
      method === 'GET'
        ? fc.constant(undefined)
        : fc.oneof({ weight: 9, arbitrary: given }, { weight: 1, arbitrary: hostile }),
    authorized: fc.nat(9).map((n) => n > 0),
  });
}

const encoded = (value: unknown) =>
  encodeURIComponent((typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).toWellFormed());

function ask(endpoint: Endpoint, { path, query, body, authorized }: Request): Promise<Response> {
  const { listener, method } = endpoint;
  const isPublic = listener === 'public';
  let at = 0;
  const filled = endpoint.path.replace(/\{\w+\}/g, () => encoded(path[at++] || '0'));
  const search = Object.entries(query).map(([name, value]) => `${encoded(name)}=${encoded(value)}`);
  const key = isPublic ? platform.apiKey : platform.adminKey;
  const json = body === undefined ? undefined : JSON.stringify(body);
  return send(
    Number(new URL(isPublic ? platform.url : platform.adminUrl).port),
    method,
    `${PREFIX[listener]}${filled}${search.length > 0 ? `?${search.join('&')}` : ''}`,
    {
      headers: {
        ...(authorized ? { authorization: `Bearer ${key}` } : {}),
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(json === undefined ? {} : { body: json }),
    },
  );
}

/** Revokes the key of these tests, or streams without end. */
const LEFT_OUT = new Set(['deleteMyApiKey', 'streamSource', 'streamWorkflow']);

describe.each(['public', 'operator'] as const)('generated requests to the %s API', (listener) => {
  const document = JSON.parse(JSON.stringify(openApiDocument(listener)));
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema(document, 'document');
  const declared = (Object.values(endpoints) as Endpoint[]).filter(
    (one) => one.listener === listener && !LEFT_OUT.has(one.operationId),
  );

  /** Difference of a response from the document; undefined: it conforms. */
  function findFault({ path, method }: Endpoint, { status, text: received }: Response): string | undefined {
    if (status >= 500) return `The status is ${status}: ${received}`;
    const responses = document.paths[path][method.toLowerCase()].responses;
    if (!(status in responses)) return `The status ${status} is not documented: ${received}`;
    const pointer = [path, method.toLowerCase(), 'responses', status, 'content', 'application/json', 'schema']
      .map((part) => String(part).replaceAll('~', '~0').replaceAll('/', '~1'))
      .map(encodeURIComponent)
      .join('/');
    if (!responses[status].content)
      return received === '' ? undefined : `A body is not documented: ${received}`;
    const validate = ajv.getSchema(`document#/paths/${pointer}`);
    if (!validate) throw new Error(`No schema at ${pointer}`);
    if (validate(JSON.parse(received))) return undefined;
    return `${ajv.errorsText(validate.errors)}: ${received}`;
  }

  test.each(declared.map((one) => [one.operationId, one] as const))(
    '%s answers as documented',
    async (_name, endpoint) => {
      await fc.assert(
        fc.asyncProperty(requestOf(endpoint), async (request) => {
          expect(findFault(endpoint, await ask(endpoint, request))).toBeUndefined();
        }),
        { numRuns: RUNS },
      );
    },
    TIMEOUT_MS,
  );
});
