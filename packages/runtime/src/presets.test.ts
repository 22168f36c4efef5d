import { expect, test } from '@jest/globals';
import { hashApiKey } from '@wellspring/core/api-key';
import { systemClock } from '@wellspring/core/clock';
import { apiKeys, users } from '@wellspring/store/collections/users';
import { openPorts } from '@wellspring/testing/service-harness';
import { applyPresets } from './presets.ts';

test('processes that start at the same moment make one user with one key', async () => {
  const { store, close } = openPorts();
  const key = 'ws_presetpresetpresetpreset00';
  await Promise.all([1, 2, 3].map(() => applyPresets({ store, clock: systemClock }, key, true)));
  const [admin, ...others] = await store.collection(users).list();
  expect([admin?.username, others]).toEqual(['admin', []]);
  expect(await store.collection(apiKeys).list()).toMatchObject([
    { user_id: admin!.id, hash: hashApiKey(key) },
  ]);
  await close();
});
