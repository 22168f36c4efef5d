import { expect, test } from '@jest/globals';
import type { ReplayMessage, RunJob } from '@wellspring/contract/messages';
import { eventIdOfSortKey, eventSortKey } from '@wellspring/core/event-id';
import { type EventRow, events } from '@wellspring/store/collections/events';
import { eventRow, OWNER } from '@wellspring/testing/rows';
import { event, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

const keyOf = (n: number) => eventSortKey({ ms: 1_700_000_000_000, n });

/** Stores events, the payload of each being its number. */
const stored = async (emitterId: string, count: number, fields: Partial<EventRow> = {}) => {
  const rows = Array.from({ length: count }, (_, n) =>
    eventRow(emitterId, keyOf(n), { payload: String(n), ...fields }),
  );
  await t.store.collection(events).insertMany(rows);
  return rows;
};

const replay = (emitter_id: string, last: number, fields: Partial<ReplayMessage> = {}) => {
  const message: ReplayMessage = {
    v: 1,
    type: 'replay',
    replay_id: 'replay-1',
    at: 1_700_000_100_000,
    emitter_id,
    owner_id: OWNER,
    after: '',
    end: keyOf(last),
    ...fields,
  };
  return t.queue.publish('emitted', { key: emitter_id, payload: JSON.stringify(message) });
};

test('present listeners get the events again, under a new webhook-id, with a header that says so', async () => {
  const { emitter, sink } = await t.subscribed();
  const listener = await t.source();
  await t.subscribe(emitter, listener);
  const [row] = await stored(emitter, 3);
  t.start();
  const event_id = eventIdOfSortKey(row!.sort_key);
  await t.emit(emitter, [{ event_id, name: '', payload: '0', trace_id: '' }]);
  await sink.received(1);
  await replay(emitter, 1);
  await replay(emitter, 1, { replay_id: 'replay-2' });
  const [first, ...again] = await sink.received(5);
  await t.untilStatus('delivered', 5);
  expect(again.map(({ text }) => text).sort()).toEqual(['0', '0', '1', '1']);
  expect(first!.headers['x-wellspring-replay']).toBeUndefined();
  expect(again.map(({ headers }) => headers['x-wellspring-replay'])).toEqual(Array(4).fill('true'));
  expect(new Set(sink.requests.map(({ headers }) => headers['webhook-id'])).size).toBe(5);
  const runs = (await t.runs(5)) as RunJob[];
  expect(new Set(runs.map(({ run_id }) => run_id)).size).toBe(5);
  expect(runs.filter(({ trigger }) => trigger.kind === 'event' && trigger.replay)).toHaveLength(4);
  expect(runs.at(-1)).toMatchObject({ source_id: listener, trigger: { payload: '1', emitter_id: emitter } });
});

test('new events do not wait for a replay of their source that waits for memory', async () => {
  const { emitter, sink } = await t.subscribed();
  const other = await t.subscribed();
  await stored(emitter, 3);
  const { replays } = t.memory;
  const free = replays.tryTake(replays.total, 'u_other')!;
  await replay(emitter, 2);
  t.start();
  // By then, the replay has begun.
  await t.emit(other.emitter, [event('other')]);
  await other.sink.received(1);
  await t.emit(emitter, [event('new')]);
  await sink.received(1);
  free();
  await sink.received(4);
});

test('a replay that is handled twice, as after a crash, delivers and runs nothing twice', async () => {
  const { emitter, sink } = await t.subscribed();
  await t.subscribe(emitter, await t.source());
  await stored(emitter, 100);
  t.start();
  await replay(emitter, 99);
  await t.quiet();
  await replay(emitter, 99, { redelivered: true });
  await t.quiet();
  await t.untilStatus('delivered', 100);
  expect(sink.requests).toHaveLength(100);
  const runs = (await t.runs(200)) as RunJob[];
  expect(new Set(runs.map(({ run_id }) => run_id)).size).toBe(100);
});

test('a large range is replayed page by page, in order', async () => {
  const [emitter, listener] = [await t.source(), await t.source()];
  await t.subscribe(emitter, listener);
  await stored(emitter, 150);
  t.start();
  await replay(emitter, 140, { after: keyOf(2) });
  const runs = (await t.runs(138)) as RunJob[];
  const payloads = runs.map(({ trigger }) => Number((trigger as { payload: string }).payload));
  expect(payloads).toEqual(Array.from({ length: 138 }, (_, n) => n + 3));
  await t.quiet();
  expect(await t.queue.depth('runs')).toBe(0);
});

test('one listener may be chosen, and a channel', async () => {
  const [emitter, sink, other] = [await t.source(), await t.receive(), await t.receive()];
  const [hook, unwanted] = [await t.webhook(sink.url), await t.webhook(other.url)];
  for (const { id } of [hook, unwanted]) {
    for (const name of ['', 'side', '$errors']) await t.subscribe(emitter, id, name);
  }
  await stored(emitter, 1);
  await t.store
    .collection(events)
    .insertMany([
      eventRow(emitter, keyOf(7), { name: 'side', payload: '"side"' }),
      eventRow(emitter, keyOf(8), { stream: '$errors', name: '$errors', payload: '"error"' }),
    ]);
  t.start();
  await replay(emitter, 9, { listener_id: hook.id });
  await replay(emitter, 9, { listener_id: hook.id, event_name: 'side', replay_id: 'replay-2' });
  await replay(emitter, 9, { listener_id: hook.id, event_name: '$errors', replay_id: 'replay-3' });
  await sink.received(4);
  await t.untilStatus('delivered', 4);
  expect(sink.requests.map(({ text }) => text).sort()).toEqual(['"error"', '"side"', '"side"', '0']);
  expect(other.requests).toHaveLength(0);
});
