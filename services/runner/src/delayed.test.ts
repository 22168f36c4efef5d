import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import { LIMITS } from '@wellspring/contract/limits';
import type { DueJob } from '@wellspring/contract/messages';
import { eventIdOfSortKey } from '@wellspring/core/event-id';
import { events } from '@wellspring/store/collections/events';
import { eventually } from '@wellspring/testing/eventually';
import { eventRow } from '@wellspring/testing/rows';
import { usePlatform } from './platform.fixture.ts';

const t = usePlatform();

/** Emits each given `[payload, options]`; a number as delivery_ts is relative to now. */
const EMITTING = `export default { name: 'Delaying', dedupe: 'unique', run(list) {
  for (const [payload, { delay, ...options }] of list)
    this.$emit(payload, delay === undefined ? options : { ...options, delivery_ts: Date.now() + delay });
} };`;

const rowsOf = (sourceId: string, stream: string) =>
  t.store.collection(events).list({ where: { partition: `${sourceId}/${stream}` }, order: 'asc' });

/** Publishes the job of a due event. @param times of the same job, in one write */
const due = async (sourceId: string, sort_key: string, fields: Partial<DueJob> = {}, times = 1) => {
  const job: DueJob = {
    v: 1,
    type: 'due',
    run_id: `run_${sort_key}`,
    source_id: sourceId,
    sort_key,
    due_at: Date.now(),
    hop: 4,
    trace_id: 'trace',
    ...fields,
  };
  const message = { key: sourceId, payload: JSON.stringify(job) };
  await t.queue.publishMany(
    'runs',
    Array.from({ length: times }, () => message),
  );
  await t.quiet();
};

const HOUR = 3_600_000;

test('a delayed event waits on $in under an id of its own, and is not among the events', async () => {
  const id = await t.deploy(EMITTING);
  await t.runAll(id, [
    [
      ['later', { delay: HOUR, id: 'a', name: 'side', summary: 's' }],
      ['now', { delay: -HOUR, id: 'b' }],
      ['again', { delay: HOUR, id: 'a', name: 'side' }],
    ],
  ]);
  await t.quiet();
  expect(await t.events(id)).toEqual(['now']);
  const [waiting, ...others] = await rowsOf(id, '$in');
  expect(others).toEqual([]);
  expect(waiting).toMatchObject({ payload: '"later"', name: 'side', meta_id: 'a', summary: 's' });
  const [message] = await eventually(() => t.published.length === 1 && t.published);
  expect(message!.events.map(({ payload }) => payload)).toEqual(['"now"']);
  expect(message!.delayed).toEqual([
    { sort_key: waiting!.sort_key, due_at: waiting!.indexed_at_ms, trace_id: 'trace' },
  ]);
});

test('when due it becomes an ordinary event once, however often that is published', async () => {
  const id = await t.deploy(EMITTING);
  await t.runAll(id, [[['later', { delay: HOUR, id: 'a', name: 'side', ts: 5 }]]]);
  await t.quiet();
  const [waiting] = await rowsOf(id, '$in');
  const { sort_key, emit_id } = waiting!;
  // As a crash between the commit and the removal leaves it.
  await due(id, sort_key);
  await t.store.collection(events).insert(waiting!);
  await due(id, sort_key);
  expect(await rowsOf(id, '$in')).toEqual([]);
  await t.store.collection(events).insert(waiting!);
  await t.runAll(
    id,
    Array.from({ length: 140 }, () => []),
  );
  await t.quiet();
  await due(id, sort_key, { redelivered: true });
  const [event, ...others] = await rowsOf(id, 'events');
  expect([others, await rowsOf(id, '$in')]).toEqual([[], []]);
  expect(event).toMatchObject({ payload: '"later"', name: 'side', meta_id: 'a', ts: 5, emit_id });
  // A message may be published twice, which the fan-out recognizes by the event id.
  const messages = t.published.filter(({ events: list }) => list.length > 0);
  expect(new Set(messages.map(({ hop, events: [one] }) => [hop, one!.event_id, one!.name].join()))).toEqual(
    new Set([`4,${eventIdOfSortKey(event!.sort_key)},side`]),
  );
});

test('when due it becomes one event although its job is twice in a batch', async () => {
  const collection = t.store.collection;
  // A read takes a turn of the event loop, as it does from a server.
  t.store.collection = (definition) => {
    const rows = collection(definition);
    return { ...rows, get: async (id) => nextTurn().then(() => rows.get(id)) };
  };
  const id = await t.deploy(EMITTING);
  await t.runAll(id, [[['later', { delay: HOUR, id: 'a' }]]]);
  await t.quiet();
  const [waiting] = await rowsOf(id, '$in');
  await due(id, waiting!.sort_key, {}, 2);
  expect(await t.events(id)).toEqual(['later']);
  expect(await rowsOf(id, '$in')).toEqual([]);
});

test('one that was deleted meanwhile does not become an event', async () => {
  const id = await t.deploy(EMITTING);
  await t.runAll(id, [[['later', { delay: HOUR, id: 'a' }]]]);
  await t.quiet();
  const [waiting] = await rowsOf(id, '$in');
  await t.store.collection(events).remove(waiting!.id);
  await due(id, waiting!.sort_key);
  expect(await t.events(id)).toEqual([]);
});

test('emits too far ahead, or beyond the number that may wait, are refused on $errors', async () => {
  const id = await t.deploy(EMITTING);
  const full = Array.from({ length: LIMITS.delayed - 1 }, (_, n) =>
    eventRow(id, `1600000000000-${String(n).padStart(10, '0')}`, { stream: '$in' }),
  );
  await t.store.collection(events).insertMany(full);
  await t.runAll(id, [
    [
      ['fits', { delay: HOUR, id: 'a' }],
      ['does not', { delay: HOUR, id: 'b' }],
      ['too far', { delay: 400 * 24 * HOUR, id: 'c' }],
      ['at once', { id: 'd' }],
    ],
  ]);
  await t.quiet();
  expect(await t.events(id)).toEqual(['at once']);
  expect(await rowsOf(id, '$in')).toHaveLength(LIMITS.delayed);
  expect(
    ((await t.events(id, '$errors')) as { error: { msg: string } }[]).map(({ error }) => error.msg),
  ).toEqual([
    '1 delayed emits were refused: delivery_ts is more than a year ahead.',
    '1 delayed emits were refused: 10000 events of this source wait on $in.',
  ]);
});
