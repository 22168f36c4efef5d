import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { newId, newSecret } from '@wellspring/core/ids';
import { changedTopic } from '@wellspring/pubsub/port';
import { autoSubscribe } from '@wellspring/store/collections/auto-subscribe';
import { autoSubscriptions, subscriptions } from '@wellspring/store/collections/subscriptions';
import { apiKeys } from '@wellspring/store/collections/users';
import { webhooks } from '@wellspring/store/collections/webhooks';
import { subscriptionRow, webhookRow } from '@wellspring/testing/rows';
import { type Platform, startGateway } from '../platform.fixture.ts';

let platform: Platform;
beforeAll(async () => {
  platform = await startGateway();
});
afterAll(() => platform.stop());

const LISTENER = 'wh_0000000001';
const create = async (path: string, fields: object) =>
  (await platform.admin('POST', path, { body: { email: 'a@example.com', ...fields } })).json.data
    .id as string;
const newUser = () => create('/users', { username: newSecret() });
const newOrg = () => create('/orgs', { orgname: newSecret(), name: 'Org' });
const join = async (org: string, user: string) =>
  expect((await platform.admin('PUT', `/orgs/${org}/members/${user}`)).status).toBe(204);
const remove = async (path: string) => expect((await platform.admin('DELETE', path)).status).toBe(204);

/** Inserts a subscription that `user` created. */
async function subscribe(owner_id: string, user_id: string, emitter_id: string) {
  const row = subscriptionRow({ owner_id, user_id, emitter_id, listener_id: LISTENER });
  await platform.deps.store.collection(subscriptions).insert(row);
  return row;
}
const subscriptionsOf = (owner_id: string) =>
  platform.deps.store.collection(subscriptions).list({ where: { owner_id } });

test('a deleted organization leaves no subscription to all that it emits', async () => {
  const [org, user] = [await newOrg(), await newUser()];
  await join(org, user);
  const kept = await subscribe(user, user, user);
  await subscribe(user, user, org);
  await remove(`/orgs/${org}`);
  expect(await subscriptionsOf(user)).toEqual([kept]);
});

test('a deleted user leaves no subscription of an organization that reached an end through this user', async () => {
  const [org, other, user] = [await newOrg(), await newOrg(), await newUser()];
  for (const joined of [org, other]) await join(joined, user);
  const kept = await subscribe(org, user, org);
  for (const emitter of [user, other]) await subscribe(org, user, emitter);
  await remove(`/users/${user}`);
  expect(await subscriptionsOf(org)).toEqual([kept]);
});

test('a removed member leaves no auto-subscription that cannot deliver, and later sources get none from it', async () => {
  const [org, user] = [await newOrg(), await newUser()];
  await join(org, user);
  const { store } = platform.deps;
  const autos = store.collection(autoSubscriptions);
  const kept = [];
  for (const owner_id of [org, user]) {
    const webhook = webhookRow({ owner_id });
    await store.collection(webhooks).insert(webhook);
    for (const owner of [org, user]) {
      const ends = { owner_id: owner, listener_id: webhook.id, event_name: '$errors' } as const;
      const row = { id: newId('as'), user_id: user, ...ends, created_at: 0 };
      await autos.insert(row);
      if (owner === owner_id) kept.push(row);
    }
  }
  await remove(`/orgs/${org}/members/${user}`);
  expect(await autos.list({ where: { user_id: user }, order: 'asc' })).toEqual(kept);
  await autoSubscribe(store, { id: 'dc_0000000001', owner_id: user }, 0);
  expect(await subscriptionsOf(user)).toMatchObject([{ listener_id: kept[1]!.listener_id }]);
});

test('a subscription of an organization between it and another one ends when its creator leaves either', async () => {
  const user = await newUser();
  const orgs = [await newOrg(), await newOrg()];
  const [org, other] = orgs as [string, string];
  for (const left of orgs) {
    for (const joined of orgs) await join(joined, user);
    const kept = await subscribe(org, user, org);
    await subscribe(org, user, other);
    await remove(`/orgs/${left}/members/${user}`);
    expect(await subscriptionsOf(org)).toEqual([kept]);
    await platform.deps.store.collection(subscriptions).remove(kept.id);
  }
});

test('streams of a member who is removed check their access at once', async () => {
  const [org, user] = [await newOrg(), await newUser()];
  await join(org, user);
  const { store, pubsub } = platform.deps;
  const [key] = await store.collection(apiKeys).list({ where: { user_id: user } });
  const changed = new Promise<void>((resolve) => {
    pubsub.subscribe(changedTopic(key!.id), () => resolve());
  });
  await remove(`/orgs/${org}/members/${user}`);
  await changed;
});
