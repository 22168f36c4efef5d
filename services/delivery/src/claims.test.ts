import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { deliveries } from '@wellspring/store/collections/webhooks';
import { deliveryRow } from '@wellspring/testing/rows';
import { LEASE_MS } from './lease.ts';
import { until, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

test('deliveries whose payloads could not be read are claimed again before their leases end', async () => {
  const sink = await t.receive();
  const { id } = await t.webhook(sink.url);
  const rows = t.store.collection(deliveries);
  for (const _ of [1, 2, 3])
    await rows.insert(deliveryRow({ webhook_id: id, due_at: t.clock.now(), payload: '{}' }));
  const { get } = rows;
  let reads = 0;
  rows.get = async (key) => {
    reads += 1;
    if (reads === 2) throw new Unavailable('at the moment');
    return get(key);
  };
  const startedAt = t.clock.now();
  t.start();
  await until(
    () => t.step(10),
    () => sink.requests.length === 3,
  );
  expect(t.clock.now() - startedAt).toBeLessThan(LEASE_MS / 2);
});

test('deliveries whose claim failed are claimed again before a sweep would find them', async () => {
  const sink = await t.receive();
  const { id } = await t.webhook(sink.url);
  const rows = t.store.collection(deliveries);
  await rows.insert(deliveryRow({ webhook_id: id, due_at: t.clock.now(), payload: '{}' }));
  const { claim } = rows;
  rows.claim = async () => {
    Object.assign(rows, { claim });
    throw new Unavailable('at the moment');
  };
  const startedAt = t.clock.now();
  t.start();
  await until(
    () => t.step(10),
    () => sink.requests.length === 1,
  );
  expect(t.clock.now() - startedAt).toBeLessThan(5_000);
});
