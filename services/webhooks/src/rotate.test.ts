import { beforeEach, expect, test } from '@jest/globals';
import type { Service } from '@wellspring/runtime/service';
import { users } from '@wellspring/store/collections/users';
import { webhooks } from '@wellspring/store/collections/webhooks';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { userRow } from '@wellspring/testing/rows';
import { ALICE, callApi, seal, useHarness } from '@wellspring/testing/service-harness';
import { createWebhooksService } from './service.ts';

const HOUR_MS = 3_600_000;

const t = useHarness(createFakeClock);
let service: Service;

beforeEach(async () => {
  await t.store.collection(users).insert(userRow({ id: ALICE.user_id, username: ALICE.user_id }));
  service = createWebhooksService(t);
});

test('a repeated rotation leaves each former secret its day', async () => {
  const api = async (path: string, body?: object) =>
    (await callApi(service, 'POST', path, { body, as: ALICE })).json.data;
  const { id, secret: first } = await api('/webhooks', { url: 'https://example.com/hook' });
  const older = async () => {
    const { older_secrets = [] } = (await t.store.collection(webhooks).get(id))!;
    return older_secrets.map(({ secret, until }) => [seal.open(secret, id), until]);
  };
  const begun = t.clock.now();
  const { secret: second } = await api(`/webhooks/${id}/rotate_secret`);
  expect(await older()).toEqual([]);
  await t.clock.advance(HOUR_MS);
  await api(`/webhooks/${id}/rotate_secret`);
  expect(await older()).toEqual([[first, begun + 24 * HOUR_MS]]);
  await t.clock.advance(23.5 * HOUR_MS);
  await api(`/webhooks/${id}/rotate_secret`);
  expect(await older()).toEqual([[second, begun + 25 * HOUR_MS]]);
  for (let n = 0; n < 12; n += 1) await api(`/webhooks/${id}/rotate_secret`);
  expect(await older()).toHaveLength(8);
});
