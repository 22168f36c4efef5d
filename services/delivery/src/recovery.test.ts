import { describe, expect, test } from '@jest/globals';
import { DELIVERIES_DUE } from '@wellspring/pubsub/port';
import { type DeliveryRow, deliveries } from '@wellspring/store/collections/webhooks';
import { deliveryRow } from '@wellspring/testing/rows';
import type { Answer } from '@wellspring/testing/webhook-sink';
import { event, until, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

describe('fairness', () => {
  test('a hanging webhook has eight attempts in progress, parks the rest, and delays no other', async () => {
    const emitter = await t.source();
    const open: ((answer: Answer) => void)[] = [];
    const hanging = await t.receive(() => new Promise<Answer>((resolve) => open.push(resolve)));
    const sound = await t.receive();
    await t.subscribe(emitter, (await t.webhook(hanging.url)).id, 'stuck');
    await t.subscribe(emitter, (await t.webhook(sound.url)).id, 'sound');
    t.start();
    const many = 400;
    await t.emit(
      emitter,
      Array.from({ length: many }, (_, n) => event(n, 'stuck')),
    );
    await hanging.received(8);
    await t.emit(
      emitter,
      Array.from({ length: 20 }, (_, n) => event(n, 'sound')),
    );
    await t.untilStatus('delivered', 20);
    expect(hanging.requests).toHaveLength(8);
    // Waiting deliveries are parked, too; all are delivered once the receiver answers.
    t.clock.advance(6_000);
    const parked = await until(
      () => t.store.collection(deliveries).count({ waiting: { gt: '' } }),
      (count) => count === many - 8,
    );
    expect(parked).toBe(many - 8);
    const drain = setInterval(() => {
      for (const one of open.splice(0)) one({ status: 200 });
    }, 1);
    await t.untilStatus('delivered', many + 20);
    clearInterval(drain);
    expect(hanging.requests).toHaveLength(many);
    expect(new Set(hanging.requests.map(({ text }) => text)).size).toBe(many);
  });

  test('deliveries beyond the queue in memory are written as parked and delivered later', async () => {
    const [emitter, sink] = [await t.source(), await t.receive()];
    await t.subscribe(emitter, (await t.webhook(sink.url)).id);
    t.start();
    const many = 2_500;
    await t.emit(
      emitter,
      Array.from({ length: many }, (_, n) => event(n)),
    );
    const [parked] = await until(
      () => t.store.collection(deliveries).list({ where: { waiting: { gt: '' } }, limit: 1 }),
      (rows) => rows.length > 0,
    );
    expect(parked).toMatchObject({ status: 'pending', due_at: null, waiting: parked!.webhook_id });
    await sink.received(many);
    await t.untilStatus('delivered', many);
    expect(new Set(sink.requests.map(({ text }) => text)).size).toBe(many);
    expect(sink.requests).toHaveLength(many);
  });
});

describe('crashes', () => {
  const pendingRow = async (fields: Partial<DeliveryRow>) => {
    const sink = await t.receive();
    const { id } = await t.webhook(sink.url);
    const row = deliveryRow({ webhook_id: id, dedupe_key: `${id}/x`, ...fields });
    await t.store.collection(deliveries).insert(row);
    return { row, sink };
  };

  test('of another process: its deliveries are delivered after the lease, not before', async () => {
    const { sink } = await pendingRow({ due_at: t.clock.now() + 60_000 });
    t.start({ mode: 'distributed' });
    t.pubsub.publish(DELIVERIES_DUE);
    t.clock.advance(55_000);
    expect(sink.requests).toHaveLength(0);
    t.clock.advance(6_000);
    await t.untilStatus('delivered');
    expect(sink.requests).toHaveLength(1);
  });

  test('of the only process: its deliveries are delivered at once; a retry waits until due', async () => {
    const first = await Promise.all(
      Array.from({ length: 300 }, () => pendingRow({ due_at: t.clock.now() + 55_000 })),
    );
    const later = await pendingRow({ due_at: t.clock.now() + 30_000, attempts: 1 });
    t.start();
    await t.untilStatus('delivered', first.length);
    expect(later.sink.requests).toHaveLength(0);
    t.clock.advance(31_000);
    await t.untilStatus('delivered', first.length + 1);
    for (const { sink } of [...first, later]) expect(sink.requests).toHaveLength(1);
  });

  test('between insertion and acknowledgement of the fan-out: delivered once', async () => {
    const [emitter, sink] = [await t.source(), await t.receive()];
    const hook = await t.webhook(sink.url);
    await t.subscribe(emitter, hook.id);
    const emitted = event(1);
    t.start();
    await t.emit(emitter, [emitted]);
    await t.untilStatus('delivered');
    const [row] = await t.deliveries();
    // The state right after the insertion.
    await t.store.collection(deliveries).patch(row!.id, {
      status: 'pending',
      attempts: 0,
      due_at: t.clock.now() + 60_000,
    });
    await t.restart();
    await t.emit(emitter, [emitted]);
    await t.untilStatus('delivered');
    await until(
      () => t.queue.depth('emitted'),
      (depth) => depth === 0,
    );
    expect(await t.deliveries()).toHaveLength(1);
    expect(sink.requests).toHaveLength(2);
  });

  test('with a repeated fan-out: attempted once, during or after the first attempt', async () => {
    const open: ((answer: Answer) => void)[] = [];
    const sink = await t.receive(() => new Promise<Answer>((resolve) => open.push(resolve)));
    const other = await t.receive();
    const emitter = await t.source();
    await t.subscribe(emitter, (await t.webhook(sink.url)).id, 'slow');
    await t.subscribe(emitter, (await t.webhook(other.url)).id);
    const slow = event(1, 'slow');
    t.start();
    await t.emit(emitter, [slow]);
    await sink.received(1);
    await t.emit(emitter, [slow, event(2)]);
    await t.untilStatus('delivered');
    expect(sink.requests).toHaveLength(1);
    open[0]!({ status: 200 });
    await t.untilStatus('delivered', 2);
    await t.emit(emitter, [slow, event(3)]);
    await t.untilStatus('delivered', 3);
    expect(sink.requests).toHaveLength(1);
  });

  test('with parked deliveries: the next process finds them', async () => {
    const { row } = await pendingRow({});
    await t.store.collection(deliveries).patch(row.id, { waiting: row.webhook_id });
    t.start();
    await t.untilStatus('delivered');
  });

  test('an attempt in progress is repeated at most once', async () => {
    const sink = await t.receive((_, n) => (n === 1 ? 'hang' : 200));
    const emitter = await t.source();
    await t.subscribe(emitter, (await t.webhook(sink.url)).id);
    t.start();
    await t.emit(emitter, [event(1)]);
    await sink.received(1);
    // Another process claims it after the lease; later writes of the first one have no effect.
    const [row] = await t.deliveries();
    await t.store.collection(deliveries).patch(row!.id, { due_at: t.clock.now() });
    t.pubsub.publish(DELIVERIES_DUE);
    await t.untilStatus('delivered');
    await t.restart();
    const [kept] = await t.deliveries();
    expect(kept).toMatchObject({ status: 'delivered', attempts: 1 });
    expect(sink.requests).toHaveLength(2);
  });
});
