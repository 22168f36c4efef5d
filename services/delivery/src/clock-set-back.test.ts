import { expect, test } from '@jest/globals';
import { deliveries } from '@wellspring/store/collections/webhooks';
import { numbers } from '@wellspring/testing/numbers';
import { deliveryRow } from '@wellspring/testing/rows';
import { LEASE_MS } from './lease.ts';
import { DAY, event, until, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

/** Advances the clock until the delivery is done. @returns how far */
async function untilDelivered(): Promise<number> {
  const before = t.clock.now();
  await until(
    async () => {
      await t.step(1_000);
      return (await t.deliveries()).filter(({ status }) => status === 'delivered');
    },
    (delivered) => delivered.length === 1,
  );
  return t.clock.now() - before;
}

test.each([
  ['while the process runs', false],
  ['and the process was started again', true],
])(
  'a retry follows the clock when it was put back %s',
  async (_when, restarts) => {
    t.clock.advance(DAY);
    const { emitter, sink } = await t.subscribed((_, n) => (n === 1 ? 500 : 200));
    t.start();
    await t.emit(emitter, [event(1)]);
    await t.untilAttempts(1);
    t.clock.advance(-DAY);
    if (restarts) await t.restart();
    expect(await untilDelivered()).toBeLessThan(DAY / 2);
    expect(sink.requests).toHaveLength(2);
  },
  20_000,
);

test('an attempt that was in progress when the process ended is repeated, though its lease ends a day later', async () => {
  const { id: webhook_id } = await t.webhook((await t.receive()).url);
  const claimedAt = t.clock.now() + DAY;
  const created_at = Math.floor(claimedAt / 1000);
  await t.store
    .collection(deliveries)
    .insert(deliveryRow({ webhook_id, created_at, due_at: claimedAt + LEASE_MS }));
  t.start();
  expect(await untilDelivered()).toBeLessThan(DAY / 2);
}, 20_000);

test('retries keep their waits, and those that receivers asked for are left', async () => {
  const now = t.clock.now();
  const rows = t.store.collection(deliveries);
  const HOUR = 3_600_000;
  const { id: webhook_id } = await t.webhook((await t.receive()).url);
  const planned = (id: string, at: number, wait: number, attempts: number) =>
    deliveryRow({
      ...{ id, webhook_id, attempts, due_at: at + wait, created_at: 0 },
      log: JSON.stringify([{ n: attempts, at, duration_ms: 1, status: 500, error: null }]),
    });
  const ahead = numbers(450).map((n) => planned(`dlv_ahead${n}`, now + DAY, 2 * HOUR, 4));
  await rows.insertMany([...ahead, planned('dlv_asked', now - HOUR, 24 * HOUR, 1)]);
  t.start();
  const times = await until(
    async () => {
      await t.step(100);
      return (await t.deliveries()).map(({ due_at }) => (due_at! - now) / HOUR);
    },
    (dues) => dues.filter((due) => due < 20).length === ahead.length,
  );
  const rounded = times.map((hours) => Math.round(hours));
  expect(rounded.filter((hours) => hours === 2)).toHaveLength(ahead.length);
  expect(rounded).toContain(23);
}, 20_000);
