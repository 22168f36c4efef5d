import { expect, test } from '@jest/globals';
import type { Config } from '@wellspring/runtime/config';
import { sources } from '@wellspring/store/collections/sources';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { subscriptionRow } from '@wellspring/testing/rows';
import { createCatalog } from './catalog.ts';
import { ECHO, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

test('a deployment is loaded for its own source only, also from the cache', async () => {
  const [own, other] = [await t.deploy(ECHO), await t.deploy(ECHO)];
  const { deployment_id } = (await t.store.collection(sources).get(own))!;
  const catalog = createCatalog({ ...t, config: {} as Config });
  for (let attempt = 0; attempt < 2; attempt += 1) {
    expect(await catalog.load(other, deployment_id)).toBeUndefined();
    expect((await catalog.load(own))!.deployment.id).toBe(deployment_id);
  }
});

test('$logs are wanted by globs of the owner of the source, not by those of others', async () => {
  const id = await t.deploy(ECHO);
  const ends = { emitter_id: 'dc_*', listener_id: 'wh_0000000001' };
  const subscribe = (fields: object = {}) =>
    t.store.collection(subscriptions).insert(subscriptionRow({ ...ends, event_name: '$logs', ...fields }));
  const logsWanted = async () => (await createCatalog({ ...t, config: {} as Config }).load(id))!.logsWanted;
  await subscribe({ owner_id: 'u_0000000009' });
  expect(await logsWanted()).toBe(false);
  await subscribe();
  expect(await logsWanted()).toBe(true);
});
