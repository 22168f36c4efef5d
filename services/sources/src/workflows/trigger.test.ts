import { beforeEach, expect, test } from '@jest/globals';
import type { Principal } from '@wellspring/contract/principal';
import { sources } from '@wellspring/store/collections/sources';
import { users } from '@wellspring/store/collections/users';
import { workflowDeployments } from '@wellspring/store/collections/workflows';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { OWNER, sourceRow, userRow } from '@wellspring/testing/rows';
import { code, createTestbed } from '../platform.fixture.ts';

const OPERATOR: Principal = { kind: 'operator' };
const STEP = { name: 'one', component: code({ type: 'action' }) };

interface Shown {
  id: string;
  definition: { trigger: { props?: object } };
  trigger: { source_id: string };
}

const t = forEachTest(createTestbed);
beforeEach(async () => {
  await t.store.collection(users).insert(userRow());
});

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
