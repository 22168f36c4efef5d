import { expect, test } from '@jest/globals';
import { createByteBudget, createHold } from '@wellspring/core/byte-budget';
import { encodeCursor } from '@wellspring/core/cursor';
import { components } from '@wellspring/store/collections/components';
import { deployments, sources } from '@wellspring/store/collections/sources';
import { members } from '@wellspring/store/collections/users';
import { sourceRow } from '@wellspring/testing/rows';
import { ALICE, BOB, user } from '@wellspring/testing/service-harness';
import { keyed, OPERATOR, refusal, type Shown, useBed } from './bed.fixture.ts';

const ORG = 'o_0000000001';
const { bed, post, get } = useBed();
const remove = (id: string, principal = ALICE) => bed.invoke('deleteComponent', { id }, {}, principal);
type Listed = { data: Shown[]; total_count: number };
const mine = (input: Record<string, unknown> = {}, principal = ALICE) =>
  bed.invoke<Listed>('listMyComponents', {}, input, principal);
const ofOrg = (principal = ALICE) => bed.invoke<Listed>('listOrgComponents', { org_id: ORG }, {}, principal);

test('lists are of one owner, newest first, in pages', async () => {
  const made = [];
  for (const name of ['One', 'Two', 'Three']) made.push((await post(keyed(null, '', name))).id);
  const inOrg = await post(keyed(null, '', 'Org'), ALICE, { org_id: ORG });
  await post(keyed(null, '', 'Of Bob'), BOB);
  expect((await mine({ limit: 2 })).data.map(({ id }) => id)).toEqual([made[2], made[1]]);
  expect(await mine()).toMatchObject({ total_count: 3 });
  expect((await ofOrg()).data.map(({ id }) => id)).toEqual([inOrg.id]);
  expect((await ofOrg(user('u_0000000003', ORG))).data).toHaveLength(1);
  await expect(ofOrg(BOB)).rejects.toMatchObject(refusal(404));
});

test.each([
  ['short', ''],
  ['compressed', ' '.repeat(100_000)],
])('a list reads %s code as far as there is memory for it, and the next page goes on', async (_, end) => {
  const made = [];
  for (const name of ['One', 'Two', 'Three']) made.push((await post(keyed(null, '', name) + end)).id);
  const chars = (keyed(null, '', 'One') + end).length;
  const budget = createByteBudget(Math.floor(2.5 * chars));
  const within = (input: Record<string, unknown> = {}) => {
    const hold = createHold(budget);
    return bed.invoke<Listed>('listMyComponents', {}, input, ALICE, hold).finally(hold.release);
  };
  const first = await within();
  expect(first.data.map(({ id }) => id)).toEqual([made[2], made[1]]);
  expect(first.total_count).toBe(3);
  expect((await within({ after: encodeCursor(made[1]!) })).data.map(({ id }) => id)).toEqual([made[0]]);
  budget.tryTake(2 * chars);
  await expect(within()).rejects.toMatchObject(refusal(503));
});

test('a deleted component is gone with its keys; its key names the one saved before', async () => {
  const old = await post(keyed('kept', '1.0.0', 'Old'));
  const { id } = await post(keyed('kept', '2.0.0', 'New'));
  await remove(id);
  for (const gone of [id, 'kept@2.0.0']) await expect(get(gone)).rejects.toMatchObject(refusal(404));
  expect((await get('kept')).id).toBe(old.id);
  await remove(old.id);
  await expect(get('kept')).rejects.toMatchObject(refusal(404));
  await expect(remove(id)).rejects.toMatchObject(refusal(404));
});

test('a key of a component whose deletion was interrupted finds the remaining versions', async () => {
  const old = await post(keyed('kept', '1.0.0', 'Old'));
  const { id } = await post(keyed('kept', '1.1.0', 'New'));
  await bed.store.collection(components).remove(id);
  for (const key of ['kept', 'kept@1.0.0', 'kept@^1.0.0']) expect((await get(key)).id).toBe(old.id);
  await expect(get('kept@1.1.0')).rejects.toMatchObject(refusal(404));
});

test('components of other owners, and of the registry, are 404', async () => {
  const { id } = await post(keyed(null, '', 'Own'));
  const inOrg = await post(keyed(null, '', 'Org'), ALICE, { org_id: ORG });
  const { id: published } = await bed.invoke(
    'operatorPublish',
    {},
    { component_code: keyed('in-registry', '1.0.0') },
    OPERATOR,
  );
  for (const other of [id, inOrg.id, published, 'sc_0000000000', 'in-registry'])
    await expect(remove(other, BOB)).rejects.toMatchObject(refusal(404));
  await remove(inOrg.id, user('u_0000000003', ORG));
});

const deployedBy = async (id: string, owner_id: string, sourceId: string) => {
  await bed.store.collection(sources).insert(sourceRow({ id: sourceId, owner_id, component_id: id }));
  await bed.store.collection(deployments).insert({
    id: sourceId.replace('dc_', 'd_'),
    source_id: sourceId,
    component_id: id,
    bundle_id: '',
    definition: (await bed.store.collection(components).get(id))!.definition,
    configured_props: {},
    created_at: 0,
  });
};

test('while sources use it, it is kept, and they are listed', async () => {
  const { id } = await post(keyed(null, '', 'Used'));
  await deployedBy(id, ORG, 'dc_0000000001');
  await expect(remove(id)).rejects.toMatchObject({
    status: 409,
    code: 'component_in_use',
    details: { sources: ['dc_0000000001'], workflows: [] },
  });
  expect(await bed.store.collection(components).get(id)).toBeDefined();
  await bed.store.collection(deployments).remove('d_0000000001');
  await remove(id);
});

test('of an organization, it is kept while a source of another member uses it, which is not named', async () => {
  const { id } = await post(keyed(null, '', 'Of the organization'), ALICE, { org_id: ORG });
  const membership = `${ORG}/${BOB.user_id}`;
  await bed.store.collection(members).insert({ id: membership, org_id: ORG, user_id: BOB.user_id });
  await deployedBy(id, BOB.user_id, 'dc_0000000001');
  await expect(remove(id)).rejects.toMatchObject({
    status: 409,
    message: 'The component is used by 1 source or workflow of other members of the organization.',
    details: { sources: [], workflows: [] },
  });
  // A former member keeps the code that the source runs, and holds nobody up.
  await bed.store.collection(members).remove(membership);
  await remove(id);
});
