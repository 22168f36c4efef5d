import { expect, test } from '@jest/globals';
import type { Principal } from '@wellspring/contract/principal';
import { deployments, sources } from '@wellspring/store/collections/sources';
import { users } from '@wellspring/store/collections/users';
import { workflowDeployments, workflows } from '@wellspring/store/collections/workflows';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { OWNER, sourceRow } from '@wellspring/testing/rows';
import { code, createTestbed } from '../platform.fixture.ts';

const OPERATOR: Principal = { kind: 'operator' };
const STEPS = [{ name: 'one', component: code({ type: 'action' }), props: {} }];

const t = forEachTest(createTestbed);

const create = (trigger: object = { http: true }) => {
  const definition = { name: 'One', trigger, steps: STEPS };
  return t.invoke<{ id: string }>('operatorCreateWorkflow', {}, { owner_id: OWNER, definition }, OPERATOR);
};
const replace = (id: string, version: string) => {
  const definition = { name: version, trigger: { component: code({ version }) }, steps: STEPS };
  return t.invoke('operatorUpdateWorkflow', { id }, { definition }, OPERATOR);
};

/** Workflows and their deployments; sources; deployments of steps and sources. */
const counts = () =>
  Promise.all([
    t.store.collection(workflows).count(),
    t.store.collection(workflowDeployments).count(),
    t.store.collection(sources).count(),
    t.store.collection(deployments).count(),
  ]);

test('an update that was completed by another process removes nothing of a later one', async () => {
  const { id } = await create();
  const first = t.holdHook('deactivate');
  const abandoned = replace(id, 'Two').catch(({ code }) => code);
  await first.begun;
  await t.restart();
  const second = t.holdHook('deploy');
  const later = replace(id, 'Three');
  await second.begun;
  first.end();
  expect(await abandoned).toBe('workflow_busy');
  second.end();
  expect(await later).toMatchObject({ name: 'Three' });
  expect(await counts()).toEqual([1, 1, 1, 2]);
});

test('a creation that ends after its recovery has read it stays', async () => {
  const { id } = await create();
  const rows = t.store.collection(workflows);
  await rows.patch(id, { status: 'deploying' });
  t.onNextWrite(async () => void (await rows.patch(id, { status: 'live' })));
  await t.recover();
  expect(await rows.get(id)).toMatchObject({ status: 'live' });
  expect(await counts()).toEqual([1, 1, 1, 2]);
});

test.each([
  ['makes', undefined],
  ['names', sourceRow()],
])(
  'a workflow whose owner is deleted before its row is written leaves nothing; it %s a source',
  async (_what, source) => {
    if (source) await t.store.collection(sources).insert(source);
    t.onNextResolve(async () => void (await t.store.collection(users).remove(OWNER)));
    const creating = create(source && { source_id: source.id });
    await expect(creating).rejects.toMatchObject({ status: 404, message: expect.stringContaining(OWNER) });
    expect(await counts()).toEqual([0, 0, source ? 1 : 0, 0]);
  },
);
