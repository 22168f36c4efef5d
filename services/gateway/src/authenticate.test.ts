import { expect, test } from '@jest/globals';
import { apiKeys, users } from '@wellspring/store/collections/users';
import { eventually } from '@wellspring/testing/eventually';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { OWNER, userRow } from '@wellspring/testing/rows';
import { openPorts } from '@wellspring/testing/service-harness';
import { issueApiKey } from './api-keys.ts';
import { createAuthenticator } from './authenticate.ts';

test('the use of a key is written at most once a minute, however many requests it has', async () => {
  const clock = createFakeClock();
  const ports = openPorts({ clock });
  const deps = { ...ports, clock };
  const rows = deps.store.collection(apiKeys);
  await deps.store.collection(users).insert(userRow());
  const { id, api_key } = await issueApiKey(deps, OWNER);
  const authenticate = createAuthenticator(deps);
  const use = () => authenticate(`Bearer ${api_key}`);
  const shown = async (at: number, version: number) =>
    expect(await rows.getVersioned(id)).toMatchObject({ row: { last_used_at: at }, version });
  const first = Math.floor(clock.now() / 1000);
  await Promise.all([use(), use(), use()]);
  await eventually(() => shown(first, 2));
  await clock.advance(59_000);
  await use();
  await clock.advance(1_000);
  await Promise.all([use(), use()]);
  await eventually(() => shown(first + 60, 3));
  await ports.close();
});
