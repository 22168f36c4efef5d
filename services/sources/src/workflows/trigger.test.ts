import { expect, test } from '@jest/globals';
import type { Principal } from '@wellspring/contract/principal';
import { openValues } from '@wellspring/runtime/secret-values';
import { sources } from '@wellspring/store/collections/sources';
import { workflowDeployments } from '@wellspring/store/collections/workflows';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { OWNER, sourceRow } from '@wellspring/testing/rows';
import { seal } from '@wellspring/testing/service-harness';
import { code, createTestbed } from '../platform.fixture.ts';

const OPERATOR: Principal = { kind: 'operator' };
const STEP = { name: 'one', component: code({ type: 'action' }) };

interface Shown {
  id: string;
  definition: { trigger: { props?: object } };
  trigger: { source_id: string };
}

const t = forEachTest(createTestbed);

const definitionOf = (trigger: object, step: object = STEP) => ({ name: 'One', trigger, steps: [step] });
const create = (trigger: object, step?: object) =>
  t.invoke<Shown>(
    'operatorCreateWorkflow',
    {},
    { owner_id: OWNER, definition: definitionOf(trigger, step) },
    OPERATOR,
  );
const replace = (id: string, trigger: object) =>
  t.invoke<Shown>('operatorUpdateWorkflow', { id }, { definition: definitionOf(trigger) }, OPERATOR);

test('props of a trigger or step that are null count as absent; others have to be an object', async () => {
  const source = sourceRow();
  await t.store.collection(sources).insert(source);
  for (const trigger of [{ http: true }, { component: code() }, { source_id: source.id }]) {
    const before = await create({ ...trigger, props: null }, { ...STEP, props: null });
    for (const same of [{ ...trigger, props: null }, trigger])
      expect((await replace(before.id, same)).trigger).toEqual(before.trigger);
    await expect(create({ ...trigger, props: 5 })).rejects.toMatchObject({
      status: 400,
      param: 'definition.trigger.props',
    });
  }
});

test('a secret prop of additionalProps is masked, and sent back, masked or in clear, keeps the source', async () => {
  t.addProps([{ name: 'token', type: 'string', secret: true }]);
  const kind = { name: 'kind', type: 'string', reloadProps: true };
  const component = code({ additional_props: true, props: [kind] });
  const trigger = (token: string) => ({ component, props: { kind: 'a', token } });
  const before = await create(trigger('very secret'));
  expect(before.definition.trigger.props).toEqual({ kind: 'a', token: '********' });
  expect(JSON.stringify(await t.store.collection(workflowDeployments).list())).not.toContain('very secret');
  for (const same of ['********', 'very secret'])
    expect((await replace(before.id, trigger(same))).trigger).toEqual(before.trigger);
});

test('a secret that is unset is shown as null, and sent back, keeps the source', async () => {
  const component = code({ props: [{ name: 'token', type: 'string', secret: true, optional: true }] });
  const trigger = (token: string | null) => ({ component, props: { token } });
  const before = await create(trigger(null));
  expect(before.definition.trigger.props).toEqual({ token: null });
  expect((await replace(before.id, trigger(null))).trigger).toEqual(before.trigger);
  const set = await replace(before.id, trigger('very secret'));
  expect(set.definition.trigger.props).toEqual({ token: '********' });
  const { deployments } = await t.rowsOf((await replace(before.id, trigger(null))).trigger.source_id);
  expect(openValues({ seal }, deployments[0]!)).toEqual({});
});

test('a masked secret that is sent back with another change of the trigger keeps its value', async () => {
  const secret = { name: 'token', type: 'string', secret: true };
  const component = code({ props: [secret, { name: 'n', type: 'integer' }] });
  const trigger = (n: number, token: string) => ({ component, props: { n, token } });
  const before = await create(trigger(1, 'very secret'));
  const after = await replace(before.id, trigger(2, '********'));
  expect(after.trigger.source_id).not.toBe(before.trigger.source_id);
  const { deployments } = await t.rowsOf(after.trigger.source_id);
  expect(openValues({ seal }, deployments[0]!)).toEqual({ n: 2, token: 'very secret' });
});

test('a trigger cannot take over the secrets of a source that the workflow did not make', async () => {
  const component = code({ props: [{ name: 'token', type: 'string', secret: true }] });
  const made = await create({ component, props: { token: 'very secret' } });
  const listening = await create({ source_id: made.trigger.source_id });
  await expect(replace(listening.id, { component, props: { token: '********' } })).rejects.toMatchObject({
    status: 400,
    param: 'definition.trigger.props.token',
  });
});
