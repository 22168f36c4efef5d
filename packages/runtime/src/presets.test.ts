import { expect, test } from '@jest/globals';
import { hashApiKey } from '@wellspring/core/api-key';
import { systemClock } from '@wellspring/core/clock';
import { openDatabase } from '@wellspring/sqlite/database';
import { apiKeys, users } from '@wellspring/store/collections/users';
import { createEmbeddedStore } from '@wellspring/store/embedded';
import { applyPresets } from './presets.ts';

test('processes that start at the same moment make one user with one key', async () => {
  const db = openDatabase(':memory:');
  const store = createEmbeddedStore(db);
  const key = 'ws_presetpresetpresetpreset00';
  await Promise.all([1, 2, 3].map(() => applyPresets({ store, clock: systemClock }, key, true)));
  const [admin, ...others] = await store.collection(users).list();
  expect([admin?.username, others]).toEqual(['admin', []]);
  expect(await store.collection(apiKeys).list()).toMatchObject([
    { user_id: admin!.id, hash: hashApiKey(key) },
  ]);
  await db.close();
});
