import { expect, test } from '@jest/globals';
import { attemptsOf, type DeliveryRow, deliveries, webhooks } from '@wellspring/store/collections/webhooks';
import { LEASE_MS } from './lease.ts';
import { event, type Respond, until, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

const delivering = async (respond: Respond) => {
  const subscribed = await t.subscribed(respond);
  t.start();
  return subscribed;
};

/** Calls `act` before each write by which a delivery fails for good. */
function beforeFailure(act: () => Promise<void>): void {
  const rows = t.store.collection(deliveries);
  const { insertMany, patch } = rows;
  const isFailure = ({ status }: Partial<DeliveryRow>) => status === 'failed';
  rows.insertMany = async (inserted) => {
    if (inserted.some(isFailure)) await act();
    return insertMany(inserted);
  };
  rows.patch = async (id, fields, where) => {
    if (isFailure(fields)) await act();
    return patch(id, fields, where);
  };
}

test('410 disables the webhook before the delivery is seen to have failed', async () => {
  const { emitter, hook } = await delivering(() => 410);
  let wasActive: boolean | undefined;
  beforeFailure(async () => {
    wasActive = (await t.store.collection(webhooks).get(hook.id))!.active;
  });
  await t.emit(emitter, [event(1)]);
  await t.untilStatus('failed');
  expect(wasActive).toBe(false);
});

test('a crash after a 410 has disabled the webhook leaves the delivery, which fails with its attempt', async () => {
  const { emitter, hook } = await delivering(() => 410);
  beforeFailure(() => Promise.reject(new Error('The process has died')));
  await t.emit(emitter, [event(1)]);
  await until(
    () => t.store.collection(webhooks).get(hook.id),
    (row) => row?.active === false,
  );
  await t.restart();
  t.clock.advance(LEASE_MS + 1_000);
  const [row] = await t.untilStatus('failed');
  expect(attemptsOf(row!)).toMatchObject([{ n: 1, status: 410 }]);
  expect(row!.failed_at_ms).not.toBeNull();
});

test('410 from a URL that was changed meanwhile does not disable the webhook', async () => {
  const rows = t.store.collection(webhooks);
  const moved = await t.receive();
  const { emitter, hook } = await delivering(async () => {
    await rows.patch(hook.id, { url: moved.url });
    return { status: 410 };
  });
  await t.emit(emitter, [event(1)]);
  await t.untilStatus('failed');
  expect(await rows.get(hook.id)).toMatchObject({ active: true });
  await t.emit(emitter, [event(2)]);
  expect((await moved.received(1))[0]!.text).toBe('2');
});
