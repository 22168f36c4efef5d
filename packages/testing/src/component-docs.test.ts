import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { eventually } from './eventually.ts';
import { endpointOf, platform, post, usePlatform } from './platform.fixture.ts';

/** Runs the examples of docs/components.md: comments before an example say how, and what it does. */

interface Check {
  props?: Record<string, unknown>;
  /** Accounts by the name of an app prop. */
  accounts?: Record<string, { app: string; credentials: Record<string, string> }>;
  event?: unknown;
  emitted?: unknown[];
  logs?: string[];
  response?: object;
  exports?: object;
  error?: string;
  /** JSON body of a call of the workflow’s endpoint. */
  call?: unknown;
  /** Message of the 400. */
  refused?: string;
  /** Runs by hand, and JSON bodies of calls of the endpoint of `prop`. */
  events?: unknown[];
  calls?: unknown[];
  prop?: string;
  page?: number;
  prev_context?: unknown;
  query?: string;
  options?: unknown[];
  context?: unknown;
  names?: string[];
  labels?: unknown[];
}

const DOCUMENT = readFileSync(new URL('../../../docs/components.md', import.meta.url), 'utf8');
const EXAMPLE = /((?:<!-- \w+ \{.*\} -->\n)*)```js\n([\s\S]*?)```/g;

const examples = [...DOCUMENT.matchAll(EXAMPLE)].map(([, comments = '', code = '']) => ({
  name: /name: '([^']+)'/.exec(code)?.[1] ?? '',
  code,
  checks: [...comments.matchAll(/<!-- (\w+) (\{.*\}) -->/g)].map(([, kind, text]) => ({
    kind: kind!,
    check: JSON.parse(text!) as Check,
  })),
}));

usePlatform();

async function configured({ props = {}, accounts = {} }: Check): Promise<Record<string, unknown>> {
  const values = { ...props };
  for (const [name, account] of Object.entries(accounts)) {
    values[name] = { authProvisionId: (await platform.client.createAccount(account)).id };
  }
  return values;
}

const KINDS: Record<string, (component_code: string, check: Check) => Promise<void>> = {
  async test(component_code, check) {
    const { event, emitted = [], logs, response, exports = {}, error, refused } = check;
    const input = { component_code, configured_props: await configured(check), event };
    const answer = await platform.client.testComponent(input).catch((thrown: unknown) => thrown);
    if (refused !== undefined) {
      expect(answer).toMatchObject({ status: 400, message: expect.stringContaining(refused) });
      return;
    }
    expect(answer).toMatchObject({
      ok: error === undefined,
      emitted,
      exports,
      response: response ?? null,
      error: error === undefined ? null : { msg: error },
      ...(logs && { logs: logs.map((msg) => ({ msg })) }),
    });
    expect((answer as { emitted: unknown[] }).emitted).toHaveLength(emitted.length);
  },
  async deploy(component_code, { events = [], calls = [], emitted = [], prop = '', ...check }) {
    const { client } = platform;
    const input = { component_code, configured_props: await configured(check) };
    const { id, configured_props } = await client.createSource(input);
    for (const event of events) await client.runSource({ id, event });
    for (const call of calls) await post(endpointOf({ configured_props }, prop), call);
    await eventually(async () => {
      const { data } = await client.listSourceEvents({ id, limit: 100 });
      expect(data.map(({ event }) => event).reverse()).toEqual(emitted);
    });
  },
  async workflow(component, { call, emitted, ...check }) {
    const { client, operator } = platform;
    const { id: owner_id } = await client.getMe({});
    const steps = [{ name: 'step', component, props: await configured(check) }];
    const definition = { name: 'Workflow', trigger: { http: true }, steps };
    const { id, trigger } = await operator.operatorCreateWorkflow({ owner_id, definition });
    await post(trigger.endpoint_url!, call);
    await eventually(async () => {
      const { data } = await client.listWorkflowEvents({ id, expand: 'event' });
      expect(data.map(({ event }) => (event as { raw_event: unknown }).raw_event)).toEqual(emitted);
    });
  },
  async options(component_code, { prop, page, prev_context, query, options, context, ...check }) {
    const configured_props = await configured(check);
    const input = { component_code, prop_name: prop!, configured_props, page, prev_context, query };
    expect(await platform.client.configureComponent(input)).toEqual({ options, context });
  },
  async props(component_code, { names, labels, ...check }) {
    const input = { component_code, configured_props: await configured(check) };
    const { configurable_props } = await platform.client.listComponentProps(input);
    expect(configurable_props.map(({ name }) => name)).toEqual(names);
    if (labels) expect(configurable_props.map(({ label = null }) => label)).toEqual(labels);
  },
};

test('every example says how it is run', () => {
  expect(examples.length).toBe(DOCUMENT.match(/```/g)!.length / 2);
  expect(examples.filter(({ checks }) => checks.length === 0)).toEqual([]);
});

describe.each(examples)('the example $name', ({ code, checks }) => {
  test.each(checks)('does what is said: $kind $#', async ({ kind, check }) => {
    await KINDS[kind]!(code, check);
  });
});
