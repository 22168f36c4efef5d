import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { attemptsOf, deliveries } from '@wellspring/store/collections/webhooks';
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

test('pending deliveries of a paused webhook fail without an attempt, and their logs say why', async () => {
  const sink = await t.receive();
  const { id } = await t.webhook(sink.url, { active: false });
  const rows = t.store.collection(deliveries);
  const attempt = { n: 1, at: 1, duration_ms: 1, status: 500, error: null };
  const due = { webhook_id: id, due_at: t.clock.now(), payload: '{}' };
  await rows.insert(deliveryRow({ ...due, log: '' }));
  await rows.insert(deliveryRow({ ...due, attempts: 1, log: JSON.stringify([attempt]) }));
  t.start();
  const failed = (await t.untilStatus('failed', 2)).sort((a, b) => a.attempts - b.attempts);
  expect(failed).toMatchObject([
    { attempts: 0, due_at: null, payload: '{}' },
    { attempts: 1, due_at: null, payload: '{}' },
  ]);
  const reason = { duration_ms: 0, status: null, error: 'not attempted: the webhook is not active' };
  expect(failed.map(attemptsOf)).toEqual([
    [{ n: 1, at: expect.any(Number), ...reason }],
    [attempt, { n: 2, at: expect.any(Number), ...reason }],
  ]);
  expect(sink.requests).toEqual([]);
});
