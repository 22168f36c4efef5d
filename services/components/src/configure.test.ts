import { beforeEach, describe, expect, test } from '@jest/globals';
import { CALLS, type ConfigureCall, configuredFor, type TestCall } from '@wellspring/contract/calls';
import { bundles, components } from '@wellspring/store/collections/components';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { BOB, ORG } from '@wellspring/testing/service-harness';
import { createBed, refusal } from './bed.fixture.ts';

const PROPS = [
  { name: 'mode', type: 'string', reloadProps: true },
  { name: 'token', type: 'string', secret: true },
  { name: 'item', type: 'string', options: true },
];
const CODE = JSON.stringify({ name: 'Configured', props: PROPS, additional_props: true });

const bed = forEachTest(createBed);
/** Messages to the runner, with the values opened. */
let asked: Record<string, unknown>[];

beforeEach(() => {
  asked = [];
  const open = <M extends ConfigureCall['message'] | TestCall['message']>(message: M) => {
    const values = JSON.parse(bed.seal.open(message.values, configuredFor(message.owner_id)));
    asked.push({ ...message, values });
  };
  const { signal } = new AbortController();
  bed.call.serve(
    CALLS.configure,
    async (message: ConfigureCall['message']): Promise<ConfigureCall['answer']> => {
      open(message);
      return message.call.kind === 'props'
        ? { props: [...message.props, { name: 'extra', type: 'integer' }] }
        : { options: { options: [{ label: 'A', value: 'a' }], context: { at: 1 } } };
    },
    signal,
  );
  bed.call.serve(
    CALLS.test,
    async (message: TestCall['message']): Promise<TestCall['answer']> => {
      open(message);
      const body = Buffer.from([0xff]).toString('base64');
      return {
        ok: true,
        emitted: [{ payload: '{"n":1}', name: '', id: null, summary: null, ts: null }],
        logs: [],
        response: { status: 200, headers: {}, body },
        exports: [{ name: '$return_value', json: '[1]' }],
        sends: [{ kind: 'http', json: '{"url":"u"}' }],
        truncated: false,
        duration_ms: 1,
        error: null,
      };
    },
    signal,
  );
});

const configure = (input: object, principal?: typeof BOB) =>
  bed.invoke('configureComponent', {}, { component_code: CODE, prop_name: 'item', ...input }, principal);
const propsOf = async (configured_props: object, code = CODE) => {
  const input = { component_code: code, configured_props };
  return (await bed.invoke<{ configurable_props: { name: string }[] }>('listComponentProps', {}, input))
    .configurable_props;
};

describe('options', () => {
  test('are asked of the code with the values chosen so far', async () => {
    const configured_props = { mode: 'm', other: 1 };
    const answer = await configure({ configured_props, page: 2, prev_context: { at: 0 }, query: 'q' });
    expect(answer).toEqual({ options: [{ label: 'A', value: 'a' }], context: { at: 1 } });
    const call = { kind: 'options', prop: 'item', page: 2, prevContext: { at: 0 }, query: 'q' };
    expect(asked).toMatchObject([{ owner_id: 'u_0000000001', values: configured_props, call }]);
  });

  test('begin at page 0 with an empty context', async () => {
    await configure({ prev_context: null, query: null });
    expect(asked[0]!.call).toEqual({ kind: 'options', prop: 'item', page: 0, prevContext: {} });
  });

  test('of a prop that the component cannot have, or with a wrong value, are refused', async () => {
    const component_code = JSON.stringify({ name: 'Fixed', props: PROPS });
    await expect(configure({ component_code, prop_name: 'none' })).rejects.toMatchObject(
      refusal(400, 'prop_name'),
    );
    await expect(configure({ configured_props: { mode: true } })).rejects.toMatchObject(
      refusal(400, 'configured_props.mode'),
    );
    expect(asked).toEqual([]);
  });

  test('are asked on behalf of an organization only by its members', async () => {
    await configure({ org_id: ORG });
    expect(asked[0]).toMatchObject({ owner_id: ORG });
    await expect(configure({ org_id: ORG }, BOB)).rejects.toMatchObject(refusal(403, 'org_id'));
    await expect(configure({ component_code: null }, BOB)).rejects.toMatchObject(refusal(400));
  });
});

test('code that is configured is compiled once and not stored', async () => {
  for (let i = 0; i < 3; i++) await configure({ page: i });
  expect(bed.evaluated).toHaveLength(1);
  expect(asked[0]!.bundle).toMatchObject({ code: CODE });
  expect(await bed.store.collection(components).count()).toBe(0);
  expect(await bed.store.collection(bundles).count()).toBe(0);
  await bed.resolve({ component_code: CODE });
  expect(bed.evaluated).toHaveLength(1);
  expect(await bed.store.collection(bundles).count()).toBe(1);
  await configure({});
  expect(asked.at(-1)!.bundle).toBeUndefined();
});

test('props are asked of the code when a prop that reloads them has a value', async () => {
  expect((await propsOf({})).map(({ name }) => name)).toEqual(['mode', 'token', 'item']);
  expect(asked).toEqual([]);
  expect((await propsOf({ mode: 'm' })).map(({ name }) => name)).toEqual(['mode', 'token', 'item', 'extra']);
});

test('a test run gets validated values and an event, and shows what the code did', async () => {
  const run = (input: object) => bed.invoke('testComponent', {}, { component_code: CODE, ...input });
  const configured_props = { mode: 'm', token: 't', item: 'i', extra: '5' };
  expect(await run({ configured_props, event: { k: 1 } })).toMatchObject({
    ok: true,
    emitted: [{ event: { n: 1 }, name: '' }],
    response: { status: 200, body: '/w==', base64: true },
    exports: { $return_value: [1] },
    sends: [{ kind: 'http', request: { url: 'u' } }],
  });
  expect(asked.at(-1)).toMatchObject({
    has_run: true,
    event: '{"k":1}',
    values: { ...configured_props, extra: 5 },
  });
  await expect(run({ configured_props: { mode: 'm', token: 't', item: 'i' } })).rejects.toMatchObject(
    refusal(400, 'configured_props.extra'),
  );
  const component_code = JSON.stringify({ name: 'Act', type: 'action' });
  await run({ component_code });
  expect(asked.at(-1)).toMatchObject({ type: 'action', event: '{}' });
  const app = JSON.stringify({ name: 'App', type: 'app' });
  await expect(run({ component_code: app })).rejects.toMatchObject(refusal(400));
  expect(await bed.store.collection(components).count()).toBe(0);
});
