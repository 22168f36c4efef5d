import { beforeEach, expect, test } from '@jest/globals';
import type { ReplayMessage } from '@wellspring/contract/messages';
import { eventIdOfSortKey, eventSortKey } from '@wellspring/core/event-id';
import { createTokenBuckets } from '@wellspring/core/token-buckets';
import type { Service } from '@wellspring/runtime/service';
import { events } from '@wellspring/store/collections/events';
import { sources } from '@wellspring/store/collections/sources';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { webhooks } from '@wellspring/store/collections/webhooks';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { eventRow, sourceRow, subscriptionRow, webhookRow } from '@wellspring/testing/rows';
import { ALICE, BOB, callApi, useHarness } from '@wellspring/testing/service-harness';
import { createEventsService } from './service.ts';

const t = useHarness(createFakeClock);
let service: Service;
const SOURCE = 'dc_0000000001';
const keyOf = (n: number) => eventSortKey({ ms: 1_700_000_000_000 + n, n: 0 });
const idOf = (n: number) => eventIdOfSortKey(keyOf(n));

beforeEach(async () => {
  service = createEventsService({ ...t, buckets: createTokenBuckets(t.clock) });
  await t.store.collection(sources).insert(sourceRow({ id: SOURCE }));
  await t.store
    .collection(events)
    .insertMany([
      ...[1, 2, 3].map((n) => eventRow(SOURCE, keyOf(n))),
      eventRow(SOURCE, keyOf(4), { name: 'side' }),
      eventRow(SOURCE, keyOf(5), { stream: '$errors', name: '$errors' }),
    ]);
});

const replay = async (body: object, as = ALICE) => {
  const { status, json } = await callApi(service, 'POST', `/sources/${SOURCE}/events/replay`, { body, as });
  return status === 202 ? json.data.count : [status, json.param];
};
const published = async (): Promise<ReplayMessage> => {
  const stop = new AbortController();
  let message: ReplayMessage | undefined;
  await t.queue.consume(
    'emitted',
    async ([job]) => {
      message = JSON.parse(job.payload) as ReplayMessage;
      stop.abort();
    },
    { signal: stop.signal },
  );
  return message!;
};

test('counts the events of a range that exist now, and leaves them to the delivery service', async () => {
  expect(await replay({ start_id: idOf(2) })).toBe(3);
  expect(await published()).toMatchObject({ type: 'replay', emitter_id: SOURCE, end: keyOf(4) });
  expect(await replay({ start_id: idOf(0), end_id: idOf(2) })).toBe(2);
  expect(await published()).toMatchObject({ end: keyOf(2) });
  expect(await replay({ event_id: idOf(3) })).toBe(1);
  expect((await published()).after < keyOf(3)).toBe(true);
  expect(await replay({ start_id: idOf(1), event_name: 'side' })).toBe(1);
  expect(await replay({ event_id: idOf(5), event_name: '$errors' })).toBe(1);
});

test('events that are emitted while the range is counted do not change its count', async () => {
  const rows = t.store.collection(events);
  const { count } = rows;
  let n = 6;
  rows.count = async (...args) => {
    const counted = await count(...args);
    await rows.insertMany([eventRow(SOURCE, keyOf(n++))]);
    return counted;
  };
  service = createEventsService({ ...t, buckets: createTokenBuckets(t.clock) });
  expect(await replay({ event_id: idOf(2) })).toBe(1);
  expect(await replay({ start_id: idOf(1), end_id: idOf(3) })).toBe(3);
});

test('a range without events replays nothing; an unknown event is not found', async () => {
  expect(await replay({ start_id: idOf(8) })).toBe(0);
  expect(await replay({ start_id: idOf(3), end_id: idOf(1) })).toBe(0);
  expect(await replay({ event_id: idOf(5) })).toEqual([404, undefined]);
  expect(await t.queue.depth('emitted')).toBe(0);
});

test('bad parameters are named; sources of others are not found', async () => {
  expect(await replay({})).toEqual([400, 'event_id']);
  expect(await replay({ end_id: idOf(1) })).toEqual([400, 'event_id']);
  expect(await replay({ event_id: idOf(1), end_id: idOf(1) })).toEqual([400, 'event_id']);
  expect(await replay({ start_id: 'yesterday' })).toEqual([400, 'start_id']);
  expect(await replay({ start_id: idOf(1), event_name: '$logs' })).toEqual([400, 'event_name']);
  expect(await replay({ start_id: idOf(1) }, BOB)).toEqual([404, undefined]);
});

test('a chosen listener has to be one’s own, and to listen to the source', async () => {
  const own = ['wh_0000000001', 'wh_0000000002'] as const;
  const rows = t.store.collection(webhooks);
  await rows.insertMany(own.map((id) => webhookRow({ id })));
  await rows.insert(webhookRow({ id: 'wh_0000000003', owner_id: BOB.user_id }));
  await t.store
    .collection(subscriptions)
    .insertMany(
      [...own.slice(0, 1), 'wh_0000000003'].map((listener_id) =>
        subscriptionRow({ emitter_id: 'dc_*', listener_id }),
      ),
    );
  const to = (listener_id: string) => replay({ start_id: idOf(1), listener_id });
  expect(await to(own[0])).toBe(4);
  expect(await published()).toMatchObject({ listener_id: own[0] });
  expect(await to(own[1])).toEqual([400, 'listener_id']);
  expect(await to('wh_0000000003')).toEqual([404, undefined]);
  expect(await to('dc_0000000009')).toEqual([404, undefined]);
});

test('a chosen listener has to listen to the channel; a glob matches sources of its owner only', async () => {
  const [side, errors, glob] = ['wh_0000000001', 'wh_0000000002', 'wh_0000000003'] as const;
  await t.store.collection(webhooks).insertMany([side, errors, glob].map((id) => webhookRow({ id })));
  await t.store
    .collection(subscriptions)
    .insertMany([
      subscriptionRow({ emitter_id: SOURCE, listener_id: side, event_name: 'side' }),
      subscriptionRow({ emitter_id: SOURCE, listener_id: errors, event_name: '$errors' }),
      subscriptionRow({ emitter_id: 'dc_*', listener_id: glob, owner_id: 'o_0000000001' }),
    ]);
  const to = (listener_id: string, event_name?: string) =>
    replay({ start_id: idOf(1), listener_id, ...(event_name !== undefined && { event_name }) });
  expect(await to(side)).toBe(4);
  expect(await to(side, 'side')).toBe(1);
  expect(await to(side, '')).toEqual([400, 'listener_id']);
  expect(await to(errors, '$errors')).toBe(1);
  expect(await to(errors)).toEqual([400, 'listener_id']);
  expect(await to(glob)).toEqual([400, 'listener_id']);
});

test('a source has a limit of replays, the answer beyond it says when to try again', async () => {
  const answers = await Promise.all(Array.from({ length: 30 }, () => replay({ start_id: idOf(2) })));
  expect(answers).toContainEqual([429, undefined]);
  expect(answers.filter((count) => count === 3)).toHaveLength(10);
});
