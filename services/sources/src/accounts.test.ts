import { describe, expect, test } from '@jest/globals';
import { accounts } from '@wellspring/store/collections/accounts';
import { deployments, sources } from '@wellspring/store/collections/sources';
import { members, users } from '@wellspring/store/collections/users';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { ALICE, BOB, ORG, user } from '@wellspring/testing/service-harness';
import { code, createTestbed } from './platform.fixture.ts';

interface Account {
  id: string;
  credentials?: object;
}

const CAROL = user('u_0000000003', ORG);
const CREDENTIALS = { api_key: 'very secret' };
const GITHUB = { name: 'github', type: 'app', app: 'github' };

const bed = forEachTest(createTestbed);

const create = (input: object = {}, principal = ALICE) =>
  bed.invoke<Account>('createAccount', {}, { app: 'github', credentials: CREDENTIALS, ...input }, principal);
const get = (id: string, input = {}, principal = ALICE) =>
  bed.invoke<Account>('getAccount', { id }, input, principal);
const list = async (input = {}, principal = ALICE) =>
  (await bed.invoke<{ data: Account[] }>('listMyAccounts', {}, input, principal)).data;

describe('an account', () => {
  test('is stored encrypted, and shows its credentials only when asked', async () => {
    const made = await create({ name: 'Work' });
    expect(made).toMatchObject({ id: expect.stringMatching(/^apn_/), app: 'github', name: 'Work' });
    const row = await bed.store.collection(accounts).get(made.id);
    expect(JSON.stringify(row)).not.toContain('very secret');
    for (const shown of [made, await get(made.id), ...(await list())])
      expect(shown).not.toHaveProperty('credentials');
    const include = { include_credentials: '1' };
    expect(await get(made.id, include)).toMatchObject({ credentials: CREDENTIALS });
    expect(await list(include)).toMatchObject([{ credentials: CREDENTIALS }]);
    expect((await get(made.id, { include_credentials: '0' })).credentials).toBeUndefined();
  });

  test('belongs to its owner: for others it is unknown', async () => {
    const { id } = await create();
    expect(await list({}, BOB)).toEqual([]);
    await expect(get(id, {}, BOB)).rejects.toMatchObject({ status: 404 });
    await expect(bed.invoke('deleteAccount', { id }, {}, BOB)).rejects.toMatchObject({ status: 404 });
    await bed.invoke('deleteAccount', { id }, {});
    await expect(get(id)).rejects.toMatchObject({ status: 404 });
  });

  test('of an organization belongs to its members', async () => {
    const { id } = await create({ org_id: ORG });
    expect(await list()).toEqual([]);
    expect(await get(id, {}, CAROL)).toMatchObject({ owner_id: ORG });
    const listed = (principal = CAROL) =>
      bed.invoke<{ data: Account[] }>('listOrgAccounts', { org_id: ORG }, { app: 'github' }, principal);
    expect((await listed()).data).toHaveLength(1);
    await expect(listed(BOB)).rejects.toMatchObject({ status: 404 });
    await expect(create({ org_id: ORG }, BOB)).rejects.toMatchObject({ status: 403 });
  });

  test('changes name and credentials, each without the other', async () => {
    const { id } = await create({ name: 'Old' });
    const update = (input: object, principal = ALICE) =>
      bed.invoke('updateAccount', { id }, { ...input }, principal);
    expect(await update({ name: 'New' })).toMatchObject({ name: 'New' });
    expect(await update({ credentials: { api_key: 'newer' } })).toMatchObject({ name: 'New' });
    expect(await get(id, { include_credentials: '1' })).toMatchObject({ credentials: { api_key: 'newer' } });
    await expect(update({ name: 'x' }, BOB)).rejects.toMatchObject({ status: 404 });
    await expect(update({ name: '' })).rejects.toMatchObject({ status: 400, param: 'name' });
  });

  test('that is written when its owner is being deleted does not stay', async () => {
    await bed.store.collection(users).patch(ALICE.user_id, { deleting: true });
    await expect(create()).rejects.toMatchObject({ status: 404 });
    expect(await bed.store.collection(accounts).count()).toBe(0);
  });

  test('is listed by app', async () => {
    await create();
    const slack = await create({ app: 'slack' });
    expect((await list({ app: 'slack' })).map(({ id }) => id)).toEqual([slack.id]);
  });

  test.each([
    ['an empty name', { name: ' ' }, 'name'],
    ['a long name', { name: 'x'.repeat(1001) }, 'name'],
    ['a field without name', { credentials: { '': 'x' } }, 'credentials'],
    ['a field with a long name', { credentials: { ['x'.repeat(257)]: 'x' } }, 'credentials'],
    ['credentials over 64 KB', { credentials: { key: 'x'.repeat(65_536) } }, 'credentials'],
  ])('with %s is refused', async (_what, input, param) => {
    await expect(create(input)).rejects.toMatchObject({ status: 400, param });
  });
});

describe('an app prop', () => {
  const deploy = (authProvisionId: string, { principal = ALICE, app = GITHUB as object, ...input } = {}) => {
    const configured_props = { github: { authProvisionId } };
    const component_code = code({ props: [app as never] });
    return bed.invoke<{ id: string; configured_props: unknown }>(
      'createSource',
      {},
      { component_code, configured_props, ...input },
      principal,
    );
  };
  const refusal = { status: 400, param: 'configured_props.github' };

  test('takes an account of its app', async () => {
    const { id } = await create();
    const source = await deploy(id);
    expect(source.configured_props).toEqual({ github: { authProvisionId: id } });
    expect(JSON.stringify(await bed.rowsOf(source.id))).not.toContain('very secret');
  });

  test('refuses accounts that are unknown, of others or of another app; nothing is deployed', async () => {
    const strange = await create({}, BOB);
    const slack = await create({ app: 'slack' });
    for (const id of [strange.id, slack.id, 'apn_0000000000', ''])
      await expect(deploy(id)).rejects.toMatchObject(refusal);
    expect(await bed.store.collection(sources).count()).toBe(0);
    expect(await bed.store.collection(deployments).count()).toBe(0);
  });

  test('refuses an account that lacks a field that the app declares', async () => {
    const { id } = await create();
    const app = (customFields: unknown) => ({ app: { ...GITHUB, customFields } });
    await deploy(id, app(['api_key', { name: 'region', optional: true }]));
    await expect(deploy(id, app(['api_key', { name: 'domain' }]))).rejects.toMatchObject({
      ...refusal,
      message: expect.stringContaining('the field domain'),
    });
  });

  test('takes an account of one’s organization, and an own one for a source of the organization', async () => {
    for (const { user_id } of [ALICE, CAROL])
      await bed.store.collection(members).insert({ id: `${ORG}/${user_id}`, org_id: ORG, user_id });
    await deploy((await create({ org_id: ORG })).id);
    const own = await create();
    const source = await deploy(own.id, { org_id: ORG } as never);
    // Another member must not deploy code with it.
    const update = { component_code: code({ name: 'Other', props: [GITHUB] }) };
    await expect(bed.invoke('updateSource', { id: source.id }, update, CAROL)).rejects.toMatchObject(refusal);
    await bed.invoke('updateSource', { id: source.id }, update, ALICE);
  });
});
