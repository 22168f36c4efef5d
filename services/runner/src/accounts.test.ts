import { expect, test } from '@jest/globals';
import { accounts } from '@wellspring/store/collections/accounts';
import { members } from '@wellspring/store/collections/users';
import { OWNER } from '@wellspring/testing/rows';
import { ORG, seal } from '@wellspring/testing/service-harness';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform();

const TOKEN = 'gho_very-secret-token';

const CODE = `const github = { type: 'app', app: 'github', methods: { token() { return this.$auth.token; } } };
export default {
  name: 'Tokens',
  props: { one: github, two: github },
  run() {
    console.log('uses ' + this.one.$auth.token);
    this.$emit([this.one.token() ?? null, this.two.token() ?? null]);
    if (this.one.$auth.token) throw new Error('refused ' + this.one.$auth.token);
  },
};`;

async function account(id: string, owner_id: string, token: string, app = 'github') {
  const credentials = seal.seal(JSON.stringify({ token }), id);
  const row = { id, owner_id, user_id: OWNER, app, name: id, credentials, created_at: 0, updated_at: 0 };
  await t.store.collection(accounts).insert(row);
  return { authProvisionId: id } as never;
}

async function run(id: string): Promise<unknown> {
  await t.runToEnd(id, [1]);
  return (await t.events(id)).at(-1);
}

test('accounts reach the code as $auth, each its own, and are masked in logs and errors', async () => {
  const props = {
    one: await account('apn_0000000001', OWNER, TOKEN),
    two: await account('apn_0000000002', OWNER, 'another one'),
  };
  const id = await t.deploy(CODE, {}, props);
  expect(await run(id)).toEqual([TOKEN, 'another one']);
  const texts = JSON.stringify([await t.logs(id), await t.events(id, '$errors')]);
  expect(texts).toContain('uses ********');
  expect(texts).toContain('refused ********');
  expect(texts).not.toContain(TOKEN);
});

test('a run after the deletion of the account has no credentials, and says so', async () => {
  const id = await t.deploy(CODE, {}, { one: await account('apn_0000000003', OWNER, TOKEN) });
  expect(await run(id)).toEqual([TOKEN, null]);
  await t.store.collection(accounts).remove('apn_0000000003');
  expect(await run(id)).toEqual([null, null]);
  const warnings = (await t.logs(id)).filter(({ level }) => level === 'warn');
  expect(warnings).toMatchObject([
    { msg: 'The account apn_0000000003 of the prop one cannot be used any more: its $auth is empty.' },
  ]);
});

test('a run after a change of the credentials has the new ones', async () => {
  const id = await t.deploy(CODE, {}, { one: await account('apn_0000000008', OWNER, 'old token') });
  expect(await run(id)).toEqual(['old token', null]);
  const credentials = seal.seal('{"token":"new token"}', 'apn_0000000008');
  await t.store.collection(accounts).patch('apn_0000000008', { credentials });
  expect(await run(id)).toEqual(['new token', null]);
  expect(JSON.stringify(await t.logs(id))).not.toContain('new token');
});

test('an account of an organization is lost with the membership, and an account lent to one too', async () => {
  const member = { id: `${ORG}/${OWNER}`, org_id: ORG, user_id: OWNER };
  await t.store.collection(members).insert(member);
  const own = await t.deploy(CODE, {}, { one: await account('apn_0000000004', ORG, TOKEN) });
  const lent = await t.deploy(
    CODE,
    { owner_id: ORG },
    { one: await account('apn_0000000005', OWNER, TOKEN) },
  );
  expect([await run(own), await run(lent)]).toEqual([
    [TOKEN, null],
    [TOKEN, null],
  ]);
  await t.store.collection(members).remove(member.id);
  expect([await run(own), await run(lent)]).toEqual([
    [null, null],
    [null, null],
  ]);
});

test('accounts of others and of other apps are never opened', async () => {
  const props = {
    one: await account('apn_0000000006', 'u_0000000002', TOKEN),
    two: await account('apn_0000000007', OWNER, TOKEN, 'gitlab'),
  };
  expect(await run(await t.deploy(CODE, {}, props))).toEqual([null, null]);
});
