import { beforeAll, expect, test } from '@jest/globals';
import { CALLS } from '@wellspring/contract/calls';
import { newSecret } from '@wellspring/core/ids';
import { findOwner } from '@wellspring/store/collections/owners';
import { sources } from '@wellspring/store/collections/sources';
import { states } from '@wellspring/store/collections/states';
import { apiKeys } from '@wellspring/store/collections/users';
import { forSuite } from '@wellspring/testing/lifetimes';
import { sourceRow } from '@wellspring/testing/rows';
import { issueApiKey } from '../api-keys.ts';
import { startGateway } from '../platform.fixture.ts';

const platform = forSuite(() => startGateway());
beforeAll(() => {
  platform.deps.call.serve(CALLS.forget, async () => ({ ok: true }), new AbortController().signal);
});

/** Deletes an owner; the action runs when its keys are removed and its source is not yet. */
async function deleteDuring(path: string, owner_id: string, action: () => Promise<void>): Promise<void> {
  const { store } = platform.deps;
  await store.collection(sources).insert(sourceRow({ owner_id }));
  const rows = store.collection(states);
  const { remove } = rows;
  let acted = false;
  rows.remove = async (id) => {
    rows.remove = remove;
    await action();
    acted = true;
    return remove(id);
  };
  expect((await platform.admin('DELETE', `${path}/${owner_id}`)).status).toBe(204);
  expect(acted).toBe(true);
}

test('a key that is created while its user is deleted does not stay', async () => {
  const { id } = await platform.user();
  await deleteDuring('/users', id, async () => {
    // A request that was authenticated before its key was removed.
    await expect(issueApiKey(platform.deps, id)).rejects.toMatchObject({ status: 404 });
  });
  expect(await platform.deps.store.collection(apiKeys).count({ user_id: id })).toBe(0);
});

test('an organization that is being deleted is shown as before, and gets nothing new', async () => {
  const body = { orgname: newSecret(), name: 'Org', email: 'o@example.com' };
  const org = (await platform.admin('POST', '/orgs', { body })).json.data;
  await deleteDuring('/orgs', org.id, async () => {
    expect(await findOwner(platform.deps.store, org.id)).toBeUndefined();
    expect((await platform.admin('GET', `/orgs/${org.id}`)).json.data).toEqual(org);
    expect((await platform.admin('GET', '/orgs')).json.data).toEqual([org]);
  });
  expect((await platform.admin('GET', `/orgs/${org.id}`)).status).toBe(404);
});
