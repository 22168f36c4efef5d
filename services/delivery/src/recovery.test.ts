import { describe, expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { DELIVERIES_DUE } from '@wellspring/pubsub/port';
import { type DeliveryRow, deliveries } from '@wellspring/store/collections/webhooks';
import { numbers } from '@wellspring/testing/numbers';
import { deliveryRow } from '@wellspring/testing/rows';
import type { Answer } from '@wellspring/testing/webhook-sink';
import { FIRST_ATTEMPT_TIMEOUT_MS } from './lease.ts';
import { event, eventsOf, until, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

describe('fairness', () => {
  test('a webhook that hangs has one attempt in progress and delays no other; later all are delivered', async () => {
    const emitter = await t.source();
    const open: ((answer: Answer) => void)[] = [];
    const hanging = await t.receive(() => new Promise<Answer>((resolve) => open.push(resolve)));
    const sound = await t.receive();
    await t.subscribe(emitter, (await t.webhook(hanging.url)).id, 'stuck');
    await t.subscribe(emitter, (await t.webhook(sound.url)).id, 'sound');
    t.start();
    const many = 400;
    await t.emit(emitter, eventsOf(many, 'stuck'));
    await hanging.received(1);
    // Until then the first ones wait for the permit.
    t.clock.advance(1_100);
    await t.emit(emitter, eventsOf(20, 'sound'));
    await t.untilStatus('delivered', 20);
    expect(hanging.requests).toHaveLength(1);
    const rows = await until(t.deliveries, (all) => all.length === many + 20);
    expect(rows.filter(({ status }) => status === 'pending')).toHaveLength(many);
    const drain = setInterval(() => {
      for (const one of open.splice(0)) one({ status: 200 });
    }, 1);
    await t.untilStatus('delivered', many + 20);
    clearInterval(drain);
    expect(hanging.requests).toHaveLength(many);
    expect(new Set(hanging.requests.map(({ text }) => text)).size).toBe(many);
  });

  test('a delivered event costs one row without payload, of many events at once, too', async () => {
    const { emitter, sink } = await t.subscribed();
    // No attempt lasts, also on a machine that stands still for a second. Other sleeps have a signal.
    const { sleep } = t.clock;
    t.clock.sleep = (ms, signal) =>
      ms === FIRST_ATTEMPT_TIMEOUT_MS && !signal ? new Promise(() => {}) : sleep(ms, signal);
    t.start();
    const writes = { insertMany: 0, patch: 0, claim: 0 };
    const rows = t.store.collection(deliveries);
    for (const name of ['insertMany', 'patch', 'claim'] as const) {
      const write = rows[name] as (...args: unknown[]) => Promise<unknown>;
      Object.assign(rows, {
        [name]: (...args: unknown[]) => {
          writes[name] += 1;
          return write(...args);
        },
      });
    }
    const many = 60;
    await t.emit(emitter, eventsOf(many));
    const done = await t.untilStatus('delivered', many);
    expect(
      done.every(({ payload, attempts, due_at }) => payload === '' && attempts === 1 && due_at === null),
    ).toBe(true);
    expect(writes).toEqual({ insertMany: many, patch: 0, claim: 0 });
    expect(new Set(sink.requests.map(({ text }) => text)).size).toBe(many);
    expect(sink.requests).toHaveLength(many);
  });
});

/** Watches the scans for due deliveries. @returns advances the clock until one has begun and ended since */
function watchScans(): () => Promise<unknown> {
  const rows = t.store.collection(deliveries);
  const { list } = rows;
  let scans = 0;
  rows.list = async (options) => {
    if (options?.where?.due_at) scans += 1;
    return list(options);
  };
  return () => {
    const before = scans;
    return until(
      () => t.step(500),
      () => scans > before + 1,
    );
  };
}

test('a delivery that becomes a row during a claim of its webhook is claimed next', async () => {
  const { emitter, sink, hook } = await t.subscribed();
  t.start();
  // From now on the webhook has more permits than due rows.
  await t.emit(emitter, [event(1)]);
  await t.untilStatus('delivered');
  const rows = t.store.collection(deliveries);
  const { claim, insertMany } = rows;
  const nextScan = watchScans();
  let stored = 0;
  Object.assign(rows, {
    async claim(...args: Parameters<typeof claim>) {
      Object.assign(rows, { claim });
      const claimed = await claim(...args);
      // It waits for a permit, all of which the claim has; then the scan passes its row.
      await t.emit(emitter, [event(2)]);
      await until(
        () => t.step(100),
        () => stored === 1,
      );
      await nextScan();
      return claimed;
    },
    async insertMany(...args: Parameters<typeof insertMany>) {
      const inserted = await insertMany(...args);
      stored += inserted.length;
      return inserted;
    },
  });
  await rows.insert(deliveryRow({ webhook_id: hook.id, due_at: t.clock.now() }));
  t.pubsub.publish(DELIVERIES_DUE);
  // Sooner than the next sweep.
  await t.untilStatus('delivered', 3);
  expect(sink.requests).toHaveLength(3);
}, 10_000);

test('a retry whose row could be stored only after it was due is not left to the sweep', async () => {
  const { emitter, sink } = await t.subscribed((_, n) => (n === 1 ? 500 : 200));
  const rows = t.store.collection(deliveries);
  const { insertMany } = rows;
  const nextScan = watchScans();
  let isUp = false;
  Object.assign(rows, {
    async insertMany(...args: Parameters<typeof insertMany>) {
      if (!isUp) throw new Unavailable('The store does not answer');
      return insertMany(...args);
    },
  });
  t.start();
  await t.emit(emitter, [event(1)]);
  await sink.received(1);
  t.clock.advance(10_000);
  await nextScan();
  isUp = true;
  t.clock.advance(1_000);
  await t.untilStatus('delivered');
  expect(sink.requests).toHaveLength(2);
}, 10_000);

test('retries that are due one after the other share scans, which do not read those that are not due', async () => {
  const { sink, hook } = await t.subscribed();
  const rows = t.store.collection(deliveries);
  const { list } = rows;
  const startedAt = t.clock.now();
  const due = numbers(300).map((n) =>
    deliveryRow({ webhook_id: hook.id, due_at: startedAt + 1000 + 10 * n }),
  );
  await rows.insertMany(due.map((row, n) => ({ ...row, id: `dlv_${n}`, attempts: 1 })));
  let [scans, read] = [0, 0];
  rows.list = async (options) => {
    const found = await list(options);
    // A scan also reads the next row.
    if (options?.limit !== 1) scans += 1;
    read += found.length;
    return found;
  };
  t.start();
  await until(
    () => t.step(10),
    () => sink.requests.length === due.length,
  );
  expect(scans).toBeLessThan((t.clock.now() - startedAt) / 50 + 20);
  expect(read).toBeLessThan(3 * due.length);
}, 20_000);

test('after the clock was set back, due rows of another process are found as before', async () => {
  const { emitter, sink, hook } = await t.subscribed();
  t.start();
  await t.emit(emitter, [event(1)]);
  await t.untilStatus('delivered');
  t.clock.advance(-3_600_000);
  const due = deliveryRow({ webhook_id: hook.id, due_at: t.clock.now() + 1_000 });
  await t.store.collection(deliveries).insert(due);
  const resumedAt = t.clock.now();
  await until(
    () => t.step(100),
    () => sink.requests.length === 2,
  );
  expect(t.clock.now() - resumedAt).toBeLessThan(1_800_000);
}, 10_000);

describe('crashes', () => {
  const pendingRow = async (fields: Partial<DeliveryRow>) => {
    const sink = await t.receive();
    const { id } = await t.webhook(sink.url);
    const row = deliveryRow({ webhook_id: id, ...fields });
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

  test('before the message was acknowledged: repeated without a row only, under the same webhook-id', async () => {
    const { emitter, sink } = await t.subscribed();
    const [first, second] = [event(1), event(2)];
    t.start();
    await t.emit(emitter, [first, second]);
    const [row] = await t.untilStatus('delivered', 2);
    // As if the process had died before the insertion of the first row.
    await t.store.collection(deliveries).remove(row!.id);
    await t.restart();
    await t.emit(emitter, [first, second], { redelivered: true });
    expect(await t.untilStatus('delivered', 2)).toMatchObject([{ id: row!.id }, {}]);
    await t.quiet();
    expect(sink.requests).toHaveLength(3);
    expect(new Set(sink.requests.map(({ headers }) => headers['webhook-id'])).size).toBe(2);
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
    await t.emit(emitter, [slow, event(2)], { redelivered: true });
    await t.untilStatus('delivered');
    expect(sink.requests).toHaveLength(1);
    open[0]!({ status: 200 });
    await t.untilStatus('delivered', 2);
    await t.emit(emitter, [slow, event(3)], { redelivered: true });
    await t.untilStatus('delivered', 3);
    expect(sink.requests).toHaveLength(1);
  });

  test('an attempt in progress is repeated at most once', async () => {
    const answered = { failures: 0, tried_at: 1 };
    const { emitter, sink } = await t.subscribed((_, n) => (n === 1 ? 'hang' : 200), answered);
    t.start();
    await t.emit(emitter, [event(1)]);
    await sink.received(1);
    t.clock.advance(1_100);
    const [row] = await until(t.deliveries, (rows) => rows.length === 1);
    // Another process claims it after the lease; later writes of the first one have no effect.
    await t.store.collection(deliveries).patch(row!.id, { due_at: t.clock.now() });
    t.pubsub.publish(DELIVERIES_DUE);
    await t.untilStatus('delivered');
    await t.restart();
    const [kept] = await t.deliveries();
    expect(kept).toMatchObject({ status: 'delivered', attempts: 1 });
    expect(sink.requests).toHaveLength(2);
  });
});
