import { expect, test } from '@jest/globals';
import type { EmittedMessage, ReplayMessage } from '@wellspring/contract/messages';
import { eventSortKey } from '@wellspring/core/event-id';
import { events } from '@wellspring/store/collections/events';
import { deliveries } from '@wellspring/store/collections/webhooks';
import { numbers } from '@wellspring/testing/numbers';
import { deliveryRow, eventRow, OWNER } from '@wellspring/testing/rows';
import { event, until, usePlatform } from './platform.fixture.ts';
import { useSends, WORKFLOW } from './sends/sends.fixture.ts';
import { sendRow } from './sends/sends.ts';

const t = usePlatform();
const { send, emit } = useSends(t);
const MB = 1024 * 1024;
const text = JSON.stringify('x'.repeat(MB));

const publishReplay = (emitter_id: string, end: string, n: number) => {
  const message: ReplayMessage = {
    ...{ v: 1, type: 'replay', replay_id: `replay-${n}`, at: 1_700_000_100_000, emitter_id },
    ...{ owner_id: OWNER, after: '', end },
  };
  return t.queue.publish('emitted', { key: emitter_id, payload: JSON.stringify(message) });
};

test('a claim of several rows reads their payloads one by one', async () => {
  const sink = await t.receive();
  const hooks = await Promise.all(numbers(4).map(() => t.webhook(sink.url)));
  const rows = t.store.collection(deliveries);
  for (const { id } of hooks) {
    for (const _ of numbers(8))
      await rows.insert(deliveryRow({ webhook_id: id, due_at: t.clock.now(), payload: text }));
  }
  const { claim } = rows;
  let most = 0;
  Object.assign(rows, {
    async claim(...args: Parameters<typeof claim>) {
      const claimed = await claim(...args);
      most = Math.max(
        most,
        claimed.reduce((sum, { payload }) => sum + payload.length, 0),
      );
      return claimed;
    },
  });
  t.start();
  await t.untilStatus('delivered', 32);
  expect(sink.requests.every((request) => request.text === text)).toBe(true);
  expect(most).toBeLessThanOrEqual(text.length);
});

test('pages of replays are read only as far as there is memory for their events', async () => {
  const sink = await t.receive(() => 'hang');
  const rows = t.store.collection(events);
  let read = 0;
  const { list } = rows;
  Object.assign(rows, {
    async list(...args: Parameters<typeof list>) {
      const found = await list(...args);
      read += found.length;
      return found;
    },
  });
  const key = eventSortKey({ ms: 1_700_000_000_000, n: 1 });
  for (const n of numbers(24)) {
    const emitter_id = await t.source();
    await t.subscribe(emitter_id, (await t.webhook(sink.url)).id);
    await rows.insert(eventRow(emitter_id, key, { payload: text }));
    await publishReplay(emitter_id, key, n);
  }
  // 8 MB for pages, of which one owner gets half.
  t.start({}, MB);
  await sink.received(3);
  expect(read).toBeLessThanOrEqual(6);
});

test('replays of one owner behind its large events are delivered, and so are the events', async () => {
  const sink = await t.receive();
  const key = eventSortKey({ ms: 1_700_000_000_000, n: 1 });
  for (const n of numbers(30)) {
    const emitter_id = await t.source();
    await t.subscribe(emitter_id, (await t.webhook(sink.url)).id);
    await t.store.collection(events).insert(eventRow(emitter_id, key, { payload: text }));
    await t.emit(emitter_id, [event(text)]);
    await publishReplay(emitter_id, key, n);
  }
  t.start();
  await t.untilStatus('delivered', 60);
}, 30_000);

test('a request of a workflow waits for the memory that its value takes', async () => {
  const sink = await t.receive();
  const { delivery } = t.memory;
  const most = delivery.tryTake(delivery.total - MB)!;
  t.start();
  await emit(send('http', { url: sink.url, data: numbers(300_000).map(() => []) }));
  await t.untilStatus('pending');
  await emit(send('http', { url: sink.url, data: 'usual' }));
  await t.untilStatus('delivered');
  expect(sink.requests.map((request) => request.text)).toEqual(['usual']);
  most();
  t.clock.advance(60_000);
  await t.untilStatus('delivered', 2);
  await until(
    async () => delivery.used,
    (used) => used === 0,
  );
});

test('a request whose value takes more than half of the memory is made, at once or from its row', async () => {
  const sink = await t.receive();
  const data = numbers(300_000).map(() => []);
  const message = { emitter_id: WORKFLOW, owner_id: OWNER, hop: 0 } as EmittedMessage;
  const row = sendRow(message, send('http', { url: sink.url, data }), t.clock.now());
  await t.store.collection(deliveries).insert({ ...row, due_at: t.clock.now() });
  t.start({}, MB);
  await t.untilStatus('delivered');
  await emit(send('http', { url: sink.url, data }));
  await t.untilStatus('delivered', 2);
});
