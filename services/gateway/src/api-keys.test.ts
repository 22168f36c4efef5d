import { expect, test } from '@jest/globals';
import { LIMITS } from '@wellspring/contract/limits';
import { newId } from '@wellspring/core/ids';
import { apiKeys, users } from '@wellspring/store/collections/users';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { numbers } from '@wellspring/testing/numbers';
import { OWNER, userRow } from '@wellspring/testing/rows';
import { openPorts } from '@wellspring/testing/service-harness';
import { issueApiKey } from './api-keys.ts';

test('a user has at most a thousand keys', async () => {
  const clock = createFakeClock();
  const ports = openPorts({ clock });
  const deps = { ...ports, clock };
  await deps.store.collection(users).insert(userRow());
  const rows = numbers(LIMITS.apiKeys - 1).map((n) => ({
    ...{ id: newId('key'), user_id: OWNER, hash: `hash ${n}` },
    ...{ name: null, created_at: 0, last_used_at: null },
  }));
  await deps.store.collection(apiKeys).insertMany(rows);
  await issueApiKey(deps, OWNER);
  await expect(issueApiKey(deps, OWNER)).rejects.toMatchObject({ status: 409, code: 'limit_reached' });
  await ports.close();
});
