import { expect, test } from '@jest/globals';
import { eventSortKey } from '@wellspring/core/event-id';
import { events, logs } from '@wellspring/store/collections/events';
import { sources, timers } from '@wellspring/store/collections/sources';
import { eventRow, logRow, sourceRow } from '@wellspring/testing/rows';
import { callApi, useHarness } from '@wellspring/testing/service-harness';
import { createSourcesService } from './service.ts';

const t = useHarness();
const ID = 'dc_0000000001';
const NOW = 1_700_000_000_000;

test('a source shows when it ran, emitted and failed last, and when it runs next', async () => {
  await t.store.collection(sources).insert(sourceRow({ id: ID }));
  const service = createSourcesService(t as never);
  const read = async () => (await callApi(service, 'GET', `/sources/${ID}`)).json.data;
  expect(await read()).toMatchObject({
    ...{ next_run_at: null, last_run_at: null, last_event_at: null, last_error_at: null },
  });

  const keyOf = (n: number) => eventSortKey({ ms: NOW + n, n: 0 });
  const at = (n: number, fields: object = {}) =>
    eventRow(ID, keyOf(n), { indexed_at_ms: NOW + n, ...fields });
  await t.store
    .collection(events)
    .insertMany([at(1000), at(2000), at(9000, { stream: '$errors', name: '$errors' })]);
  await t.store.collection(logs).insert(logRow(ID, keyOf(3000), { indexed_at_ms: NOW + 3000 }));
  const timer = { source_id: ID, interval_seconds: 60, cron: null, timezone: null, lease_until: null };
  await t.store.collection(timers).insertMany([
    { ...timer, id: `${ID}/a`, prop: 'a', due_at: NOW + 60_000 },
    { ...timer, id: `${ID}/b`, prop: 'b', due_at: NOW + 30_000 },
  ]);
  expect(await read()).toMatchObject({
    ...{ next_run_at: NOW / 1000 + 30, last_run_at: NOW / 1000 + 3 },
    ...{ last_event_at: NOW / 1000 + 2, last_error_at: NOW / 1000 + 9 },
  });
});
