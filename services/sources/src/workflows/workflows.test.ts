import { describe, expect, test } from '@jest/globals';
import type { Principal } from '@wellspring/contract/principal';
import { openValues } from '@wellspring/runtime/secret-values';
import { deployments, sources } from '@wellspring/store/collections/sources';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { orgs } from '@wellspring/store/collections/users';
import { workflowDeployments, workflows } from '@wellspring/store/collections/workflows';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { OWNER, orgRow, sourceRow } from '@wellspring/testing/rows';
import { seal } from '@wellspring/testing/service-harness';
import { code, createTestbed, TIMER } from '../platform.fixture.ts';

const OPERATOR: Principal = { kind: 'operator' };
const ACTION = code({ type: 'action' });
const LARGE = code({ type: 'action', description: 'x'.repeat(2_000_000) });
const step = (name: string, props: object = {}, component = ACTION) => ({ name, component, props });
const times = (length: number, given?: string) => Array.from({ length }, (_, n) => step(`s${n}`, {}, given));
const HTTP_WORKFLOW = { name: 'By HTTP', trigger: { http: true }, steps: [step('one')] };

interface Shown {
  id: string;
  name: string;
  definition: { trigger: { props: object }; steps: { props: object }[] };
  deployment_id: string;
  trigger: { source_id: string; endpoint_url: string | null };
}

const t = forEachTest(createTestbed);

const create = (definition: unknown, owner_id: string = OWNER) =>
  t.invoke<Shown>('operatorCreateWorkflow', {}, { owner_id, definition }, OPERATOR);
const replace = (id: string, definition: unknown) =>
  t.invoke<Shown>('operatorUpdateWorkflow', { id }, { definition }, OPERATOR);
const get = (id: string) => t.invoke<Shown>('operatorGetWorkflow', { id }, {}, OPERATOR);
const remove = (id: string) => t.invoke('operatorDeleteWorkflow', { id }, {}, OPERATOR);
const emittersOf = async (id: string) =>
  (await t.store.collection(subscriptions).list({ where: { listener_id: id } })).map((row) => row.emitter_id);

/** Everything stored, by collection. */
const everything = async () => ({
  workflows: await t.store.collection(workflows).list(),
  workflowDeployments: await t.store.collection(workflowDeployments).list(),
  sources: await t.store.collection(sources).list(),
  deployments: await t.store.collection(deployments).list(),
  subscriptions: await t.store.collection(subscriptions).list(),
});
const counts = async () => Object.values(await everything()).map((rows) => rows.length);

test('a deployed workflow is subscribed to the source that it made', async () => {
  const { id, trigger } = await create(HTTP_WORKFLOW);
  expect(id).toMatch(/^p_/);
  expect(trigger.endpoint_url).toMatch(/\/e\/e/);
  expect(await emittersOf(id)).toEqual([trigger.source_id]);
  const { source, endpoints } = await t.rowsOf(trigger.source_id);
  expect(source).toMatchObject({ owner_id: OWNER, status: 'live', reply_by: id, name: 'By HTTP' });
  expect(endpoints).toMatchObject([{ reply_by: id }]);
  expect(await get(id)).toMatchObject({ name: 'By HTTP', definition: HTTP_WORKFLOW, trigger });
});

test('a source of the owner may be the trigger, and stays when the workflow is deleted', async () => {
  const source = sourceRow();
  await t.store.collection(sources).insert(source);
  const { id } = await create({ ...HTTP_WORKFLOW, trigger: { source_id: source.id } });
  expect(await emittersOf(id)).toEqual([source.id]);
  await remove(id);
  expect(await emittersOf(id)).toEqual([]);
  expect(await t.store.collection(sources).get(source.id)).toBeDefined();
});

test('a workflow belongs to the user or organization it is made for, and so does the source that it makes', async () => {
  const org = orgRow('o_0000000008');
  await t.store.collection(orgs).insert(org);
  for (const owner_id of [OWNER, org.id]) {
    const { id, trigger } = await create(HTTP_WORKFLOW, owner_id);
    expect(await t.store.collection(workflows).get(id)).toMatchObject({ owner_id });
    expect((await t.rowsOf(trigger.source_id)).source).toMatchObject({ owner_id });
  }
});

test('sources of other tenants do not exist for a workflow', async () => {
  const foreign = sourceRow({ owner_id: 'u_0000000002' });
  await t.store.collection(sources).insert(foreign);
  const refused = (id: string) =>
    create({ ...HTTP_WORKFLOW, trigger: { source_id: id } }).catch((error: unknown) => error);
  expect(await refused(foreign.id)).toMatchObject({ status: 404, param: 'definition.trigger.source_id' });
  expect(await refused('dc_9999999999')).toMatchObject({
    status: 404,
    param: 'definition.trigger.source_id',
  });
  await t.store.collection(orgs).insert(orgRow('o_0000000009'));
  const theirs = create({ ...HTTP_WORKFLOW, trigger: { source_id: foreign.id } }, 'o_0000000009');
  await expect(theirs).rejects.toMatchObject({ status: 404 });
  await expect(create(HTTP_WORKFLOW, 'u_9999999999')).rejects.toMatchObject({ status: 404 });
});

describe('a wrong definition is refused with the field at fault, and nothing is stored', () => {
  const secretly = code({ type: 'action', props: [{ name: 'n', type: 'integer' }] });
  test.each<[string, unknown]>([
    ['definition', undefined],
    ['definition', []],
    ['definition.name', { ...HTTP_WORKFLOW, name: ' ' }],
    ['definition.trigger', { ...HTTP_WORKFLOW, trigger: undefined }],
    ['definition.trigger', { ...HTTP_WORKFLOW, trigger: { http: true, source_id: 'dc_0000000000' } }],
    ['definition.trigger.source_id', { ...HTTP_WORKFLOW, trigger: { source_id: 5 } }],
    ['definition.trigger.component', { ...HTTP_WORKFLOW, trigger: { component: ACTION } }],
    ['definition.steps', { ...HTTP_WORKFLOW, steps: 'none' }],
    ['definition.steps', { ...HTTP_WORKFLOW, steps: [] }],
    ['definition.steps', { ...HTTP_WORKFLOW, steps: times(101) }],
    ['definition.steps', { ...HTTP_WORKFLOW, steps: times(5, LARGE) }],
    ['definition.steps[0]', { ...HTTP_WORKFLOW, steps: [null] }],
    ['definition.steps[0].name', { ...HTTP_WORKFLOW, steps: [step('trigger')] }],
    ['definition.steps[0].name', { ...HTTP_WORKFLOW, steps: [step('__proto__')] }],
    ['definition.steps[0].name', { ...HTTP_WORKFLOW, steps: [step('a b')] }],
    ['definition.steps[1].name', { ...HTTP_WORKFLOW, steps: [step('one'), step('one')] }],
    ['definition.steps[0].component', { ...HTTP_WORKFLOW, steps: [{ name: 'one' }] }],
    ['definition.steps[0].component', { ...HTTP_WORKFLOW, steps: [step('one', {}, code())] }],
    ['definition.steps[0].props', { ...HTTP_WORKFLOW, steps: [{ ...step('one'), props: [] }] }],
    ['definition.steps[0].props.n', { ...HTTP_WORKFLOW, steps: [step('one', {}, secretly)] }],
    ['definition.steps[0].props.n', { ...HTTP_WORKFLOW, steps: [step('one', { n: 'x' }, secretly)] }],
    [
      'definition.steps[0].props.n',
      {
        ...HTTP_WORKFLOW,
        steps: [step('one', { n: `{{steps.trigger.event}}${'x'.repeat(2 ** 16)}` }, secretly)],
      },
    ],
    [
      'definition.steps[0].props.n',
      { ...HTTP_WORKFLOW, steps: [step('one', { n: '{{steps.two.x}}' }, secretly)] },
    ],
  ])('%s', async (param, definition) => {
    await expect(create(definition)).rejects.toMatchObject({ status: 400, param });
    expect(await counts()).toEqual([0, 0, 0, 0, 0]);
  });
});

test('values with expressions are not checked before the run', async () => {
  const component = code({ type: 'action', props: [{ name: 'n', type: 'integer' }] });
  const steps = [step('one'), step('two', { n: '{{steps.one.$return_value}}' }, component)];
  const { id } = await create({ ...HTTP_WORKFLOW, steps });
  expect((await get(id)).definition.steps[1]!.props).toEqual({ n: '{{steps.one.$return_value}}' });
});

test('a secret is stored sealed and shown masked, and an update keeps it, also if it is not a string', async () => {
  const secret = (name: string, type: string) => ({ name, type, secret: true });
  const descriptors = [secret('token', 'string'), secret('list', 'string[]'), secret('map', 'object')];
  const component = code({ type: 'action', props: descriptors });
  const hidden = { token: 'very secret', list: ['very secret'] };
  const props = { ...hidden, map: { a: 'very secret', b: '{{steps.trigger.event}}' } };
  const { id } = await create({ ...HTTP_WORKFLOW, steps: [step('one', props, component)] });
  const shown = (await get(id)).definition;
  expect(shown.steps[0]!.props).toEqual({ token: '********', list: '********', map: '********' });
  expect(JSON.stringify(await everything())).not.toContain('very secret');
  const stored = async () => (await t.store.collection(deployments).list({ where: { source_id: id } }))[0]!;
  const before = await stored();
  await replace(id, shown);
  const after = await stored();
  expect(after.id).not.toBe(before.id);
  expect(JSON.stringify(await everything())).not.toContain('very secret');
  expect(openValues({ seal }, after)).toEqual(props);
});

test('a trigger whose secret list is sent back, masked or in clear, keeps its source', async () => {
  const component = code({ props: [{ name: 'list', type: 'string[]', secret: true }] });
  const trigger = (list: unknown) => ({ ...HTTP_WORKFLOW, trigger: { component, props: { list } } });
  const before = await create(trigger(['very secret']));
  for (const list of ['********', ['very secret']])
    expect((await replace(before.id, trigger(list))).trigger).toEqual(before.trigger);
  const after = await replace(before.id, trigger(['other']));
  expect(after.trigger.source_id).not.toBe(before.trigger.source_id);
});

describe('an update', () => {
  test('keeps source and endpoint while the trigger is the same', async () => {
    const before = await create(HTTP_WORKFLOW);
    const after = await replace(before.id, { ...HTTP_WORKFLOW, name: 'Renamed', steps: [step('two')] });
    expect(after).toMatchObject({ id: before.id, name: 'Renamed', trigger: before.trigger });
    expect(after.deployment_id).not.toBe(before.deployment_id);
    // Of the step and the source; of the workflow.
    expect(await counts()).toEqual([1, 1, 1, 2, 1]);
  });

  test('replaces the source of another trigger, after its deactivate hook', async () => {
    const before = await create(HTTP_WORKFLOW);
    t.hooks.length = 0;
    const trigger = { component: code({ props: [TIMER] }), props: { timer: { intervalSeconds: 60 } } };
    const after = await replace(before.id, { ...HTTP_WORKFLOW, trigger });
    expect(after.trigger.source_id).not.toBe(before.trigger.source_id);
    expect(t.hooks.map((hook) => hook.split(' ')[0])).toEqual(['deploy', 'activate', 'deactivate']);
    expect(await emittersOf(before.id)).toEqual([after.trigger.source_id]);
    expect(await counts()).toEqual([1, 1, 1, 2, 1]);
  });

  test('from an outdated row is refused: another process may have deleted the source that it keeps', async () => {
    const source = sourceRow();
    await t.store.collection(sources).insert(source);
    const { id } = await create(HTTP_WORKFLOW);
    const trigger = { source_id: source.id };
    t.onNextResolve(async () => void (await replace(id, { ...HTTP_WORKFLOW, trigger })));
    const definition = { ...HTTP_WORKFLOW, name: 'Lost' };
    const outdated = t.invokeElsewhere('operatorUpdateWorkflow', { id }, { definition }, OPERATOR);
    await expect(outdated).rejects.toMatchObject({ status: 409, code: 'workflow_busy' });
    expect(await get(id)).toMatchObject({ name: 'By HTTP', trigger });
    expect(await emittersOf(id)).toEqual([source.id]);
  });

  test('that another process took for abandoned leaves a later one alone', async () => {
    const { id } = await create(HTTP_WORKFLOW);
    const change = (name: string) => replace(id, { ...HTTP_WORKFLOW, name, trigger: { component: code() } });
    const first = t.holdHook('deploy');
    const abandoned = change('Lost').catch(({ code }) => code);
    await first.begun;
    await t.restart();
    const second = t.holdHook('deploy');
    const later = change('Later');
    await second.begun;
    first.end();
    expect(await abandoned).toBe('workflow_busy');
    second.end();
    const { trigger } = await later;
    expect(await get(id)).toMatchObject({ name: 'Later', trigger });
    expect(await emittersOf(id)).toEqual([trigger.source_id]);
    expect(await counts()).toEqual([1, 1, 1, 2, 1]);
  });

  test('that fails changes nothing', async () => {
    const { id } = await create(HTTP_WORKFLOW);
    const before = await everything();
    t.onHook((hook) => {
      if (hook === 'deploy') throw new Error('no');
    });
    await expect(replace(id, { ...HTTP_WORKFLOW, trigger: { component: code() } })).rejects.toMatchObject({
      status: 400,
      param: 'definition.trigger.component',
    });
    expect(await everything()).toEqual(before);
  });
});

test('a deleted workflow leaves nothing behind', async () => {
  const { id } = await create(HTTP_WORKFLOW);
  await remove(id);
  expect(await counts()).toEqual([0, 0, 0, 0, 0]);
  await expect(get(id)).rejects.toMatchObject({ status: 404 });
  await expect(remove(id)).rejects.toMatchObject({ status: 404 });
});

describe('a crash at any write leaves a whole workflow or none', () => {
  const OTHER = { ...HTTP_WORKFLOW, name: 'Other', trigger: { component: code() }, steps: [step('two')] };

  test('of a creation', async () => {
    for (let n = 1; ; n++) {
      t.dieAfter(n);
      await create(HTTP_WORKFLOW).catch(() => {});
      const died = t.dead;
      await t.restart();
      const whole = await counts();
      if (!died) break;
      expect([
        [0, 0, 0, 0, 0],
        [1, 1, 1, 2, 1],
      ]).toContainEqual(whole);
      for (const { id } of await t.store.collection(workflows).list()) await remove(id);
    }
  });

  test('of an update', async () => {
    for (let n = 1; ; n++) {
      const { id } = await create(HTTP_WORKFLOW);
      t.dieAfter(n);
      await replace(id, OTHER).catch(() => {});
      const died = t.dead;
      await t.restart();
      const { name, trigger } = await get(id);
      const { source } = await t.rowsOf(trigger.source_id);
      expect(await counts()).toEqual([1, 1, 1, 2, 1]);
      expect(await emittersOf(id)).toEqual([trigger.source_id]);
      expect(source).toMatchObject({ status: 'live', reply_by: name === 'Other' ? null : id });
      await remove(id);
      if (!died) break;
    }
  });

  test('of a deletion', async () => {
    for (let n = 1; ; n++) {
      const { id } = await create(HTTP_WORKFLOW);
      t.dieAfter(n);
      await remove(id).catch(() => {});
      const died = t.dead;
      await t.restart();
      const left = await counts();
      expect([
        [0, 0, 0, 0, 0],
        [1, 1, 1, 2, 1],
      ]).toContainEqual(left);
      if (left[0] === 1) await remove(id);
      if (!died) break;
    }
  });
});
