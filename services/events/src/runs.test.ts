import { beforeEach, expect, test } from '@jest/globals';
import { CALLS } from '@wellspring/contract/calls';
import { encodeCursor } from '@wellspring/core/cursor';
import { eventSortKey } from '@wellspring/core/event-id';
import { derivedRunId, leastIdAt } from '@wellspring/core/ids';
import { createTokenBuckets } from '@wellspring/core/token-buckets';
import type { Service } from '@wellspring/runtime/service';
import { logs } from '@wellspring/store/collections/events';
import { runningRuns } from '@wellspring/store/collections/running-runs';
import { sources } from '@wellspring/store/collections/sources';
import { logRow, sourceRow } from '@wellspring/testing/rows';
import { ALICE, BOB, callApi, useHarness } from '@wellspring/testing/service-harness';
import { createEventsService } from './service.ts';

const t = useHarness();
let service: Service;
const SOURCE = 'dc_0000000001';
const NOW = 1_700_000_000_000;
const idAt = (n: number) => leastIdAt('run', NOW + n);

beforeEach(async () => {
  service = createEventsService({ ...t, buckets: createTokenBuckets(t.clock) });
  await t.store.collection(sources).insert(sourceRow({ id: SOURCE }));
});

const startOf = (id: string, ts: number) => ({
  ts,
  k: 'start',
  level: 'info',
  execution_id: id,
  trigger: 'http',
});
const endOf = (id: string, ts: number, more: object = {}) => ({
  ...{ ts, k: 'end', level: 'info', execution_id: id, state: 'ok' },
  ...{ compute_ms: 2.5, duration_ms: 10, emitted: 1, deduped: 0, ...more },
});

/** A row with these records, as the runner writes it. */
async function insertRow(
  n: number,
  records: { execution_id: string; k: string }[],
  emitter_id = SOURCE,
): Promise<void> {
  const run = { run_id: records[0]!.execution_id, indexed_at_ms: NOW + n };
  const fields = { ...run, count: records.length, records: JSON.stringify(records) };
  await t.store.collection(logs).insert(logRow(emitter_id, eventSortKey({ ms: NOW + n, n: 0 }), fields));
}

const list = async (query = '', as = ALICE) =>
  (await callApi(service, 'GET', `/sources/${SOURCE}/runs${query}`, { as })).json;
const get = (id: string, as = ALICE) => callApi(service, 'GET', `/runs/${id}`, { as });
const run = (n: number) => [startOf(idAt(n), NOW + n), endOf(idAt(n), NOW + n + 10)];

test('runs are listed newest first, with figures, trigger and the first error', async () => {
  const [ok, failed] = [idAt(1), idAt(2)];
  const error = (message: string) => ({
    ...{ ts: NOW, k: 'error', level: 'error', execution_id: failed },
    err: { name: 'TypeError', message, stack: 'at run' },
  });
  await insertRow(1, [
    startOf(ok, NOW + 1),
    endOf(ok, NOW + 11),
    startOf(failed, NOW + 2000),
    error('first'),
    error('second'),
    endOf(failed, NOW + 2010, { state: 'failed' }),
  ]);
  expect((await list()).data).toEqual([
    expect.objectContaining({
      id: failed,
      state: 'failed',
      started_at: NOW / 1000 + 2,
      error: { code: 'TypeError', msg: 'first', stack: 'at run' },
    }),
    {
      ...{ id: ok, emitter_id: SOURCE, state: 'ok', trigger: 'http', started_at: NOW / 1000 },
      ...{ duration_ms: 10, compute_ms: 2.5, emitted: 1, deduped: 0, error: null },
    },
  ]);
  expect((await list('?state=failed')).data.map(({ id }: { id: string }) => id)).toEqual([failed]);
});

test('a run whose lines were logged while it ran is one run', async () => {
  const id = idAt(1);
  await insertRow(1, [startOf(id, NOW)]);
  await insertRow(2, [{ ...startOf(id, NOW), k: 'log' }]);
  expect((await list()).data).toMatchObject([{ id, state: 'running', duration_ms: null }]);
  await insertRow(3, [endOf(id, NOW + 9000)]);
  expect((await list()).data).toMatchObject([{ id, state: 'ok', started_at: NOW / 1000 }]);
  expect((await get(id)).json.data).toMatchObject({ id, state: 'ok', trigger: 'http' });
});

test('skipped ticks and records of other services are no runs', async () => {
  await insertRow(1, [endOf(idAt(1), NOW, { state: undefined })]);
  await insertRow(2, [{ ...startOf(idAt(2), NOW), k: 'log' }]);
  expect((await list()).data).toEqual([]);
});

test('a tick that is skipped after a crash of its first attempt is no run', async () => {
  const id = idAt(1);
  await insertRow(1, [startOf(id, NOW)]);
  await insertRow(2, [endOf(id, NOW, { state: undefined })]);
  expect((await list()).data).toEqual([]);
});

test('of a run that is executed again after a crash, the last attempt is shown', async () => {
  const id = idAt(1);
  await insertRow(1, [startOf(id, NOW)]);
  await insertRow(2, [startOf(id, NOW + 5000), endOf(id, NOW + 5010)]);
  expect((await list()).data).toMatchObject([{ id, started_at: NOW / 1000 + 5, duration_ms: 10 }]);
});

test('the oldest run of the list has its trigger and error although its rows are read last', async () => {
  const id = idAt(0);
  const err = { name: 'TypeError', message: 'early', stack: '' };
  await insertRow(0, [startOf(id, NOW), { ...startOf(id, NOW), k: 'error', err } as never]);
  await insertRow(1, [endOf(id, NOW, { state: 'failed' })]);
  for (let n = 2; n < 101; n++) await insertRow(n, run(n));
  const { data } = await list('?limit=100');
  expect(data).toHaveLength(100);
  expect(data.at(-1)).toMatchObject({ id, trigger: 'http', error: { msg: 'early' } });
});

test('a run whose start is missing makes a list read a bounded number of rows', async () => {
  const rows = t.store.collection(logs);
  const records = JSON.stringify([endOf(idAt(0), NOW)]);
  await rows.insertMany(
    Array.from({ length: 600 }, (_, n) =>
      logRow(SOURCE, eventSortKey({ ms: NOW + n, n: 0 }), {
        ...{ run_id: idAt(n), indexed_at_ms: NOW + n, count: 1 },
        records: n === 599 ? records : JSON.stringify(run(n)),
      }),
    ),
  );
  let read = 0;
  const listRows = rows.list;
  Object.assign(rows, {
    async list(...args: Parameters<typeof listRows>) {
      const found = await listRows(...args);
      read += found.length;
      return found;
    },
  });
  const { data, page_info } = await list('?limit=100');
  expect([data[0], page_info.total_count]).toMatchObject([{ id: idAt(0), state: 'ok' }, 100]);
  expect(data.at(-1).id).toBe(idAt(500));
  expect(read).toBeGreaterThan(290);
  expect(read).toBeLessThan(310);
});

test('pages lead through the newest hundred runs', async () => {
  for (let n = 0; n < 110; n++) await insertRow(n, run(n));
  const ids: string[] = [];
  for (let query = '?limit=30'; ; ) {
    const { data, page_info } = await list(query);
    if (data.length === 0) break;
    expect(page_info.total_count).toBe(100);
    ids.push(...data.map(({ id }: { id: string }) => id));
    query = `?limit=30&after=${page_info.end_cursor}`;
  }
  expect(new Set(ids).size).toBe(100);
  const { page_info } = await list('?limit=30');
  const second = await list(`?limit=30&after=${page_info.end_cursor}`);
  const back = await list(`?limit=30&before=${second.page_info.start_cursor}`);
  expect(back.data.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 30));
});

test('pages lead through runs of listeners, whose ids end in a number', async () => {
  const ids = [0, 1, 2].map((n) => `${derivedRunId('cause')}-${n}`);
  for (const [n, id] of ids.entries()) await insertRow(n, [startOf(id, NOW + n), endOf(id, NOW + n + 1)]);
  const first = await list('?limit=2');
  const { data } = await list(`?limit=2&after=${first.page_info.end_cursor}`);
  expect([...first.data, ...data].map(({ id }) => id)).toEqual(ids.toReversed());
});

test('a page follows a run that ended since its page was read, or that is no longer listed', async () => {
  for (const n of [1, 2, 3]) await insertRow(n, [startOf(idAt(n), NOW + n)]);
  const { page_info } = await list('?state=running&limit=1');
  await insertRow(4, [endOf(idAt(3), NOW + 4)]);
  const pageOf = async (query: string) => {
    const { data, page_info } = await list(`?state=running&limit=1&${query}`);
    expect(page_info.total_count).toBe(2);
    return data.map(({ id }: { id: string }) => id);
  };
  expect(await pageOf(`after=${page_info.end_cursor}`)).toEqual([idAt(2)]);
  expect(await pageOf(`before=${encodeCursor(idAt(1))}`)).toEqual([idAt(2)]);
  expect(await pageOf(`before=${page_info.end_cursor}`)).toEqual([]);
  const tooOld = encodeCursor(idAt(0));
  expect(await pageOf(`after=${tooOld}`)).toEqual([]);
  expect(await pageOf(`before=${tooOld}`)).toEqual([idAt(1)]);
});

test('a run is found by its id, also a derived one', async () => {
  for (const [n, id] of [idAt(1), 'run_3f9a-7'].entries()) {
    await insertRow(5 + n, [startOf(id, NOW + 5), endOf(id, NOW + 6)]);
    expect((await get(id)).json.data).toMatchObject({ id, state: 'ok' });
  }
});

test('of runs with the same id each owner gets its own', async () => {
  const id = idAt(1);
  const other = 'dc_0000000002';
  await t.store.collection(sources).insert(sourceRow({ id: other, owner_id: 'u_0000000002' }));
  await insertRow(1, [startOf(id, NOW)], other);
  await insertRow(1, [startOf(id, NOW), endOf(id, NOW + 10, { emitted: 7 })]);
  expect((await get(id)).json.data).toMatchObject({ emitter_id: SOURCE, state: 'ok', emitted: 7 });
  expect((await get(id, BOB)).json.data).toMatchObject({ emitter_id: other, state: 'running' });
});

test('a run is found although another owner has megabytes of logs of the same id', async () => {
  const id = idAt(1);
  const other = 'dc_0000000002';
  await t.store.collection(sources).insert(sourceRow({ id: other, owner_id: 'u_0000000002' }));
  await insertRow(1, run(1));
  const msg = 'x'.repeat(2 * 1024 * 1024);
  for (let n = 0; n < 9; n++) await insertRow(n, [{ ...startOf(id, NOW), k: 'log', msg } as never], other);
  expect((await get(id)).json.data).toMatchObject({ id, emitter_id: SOURCE });
});

test('unknown runs and runs of others are 404', async () => {
  const id = idAt(1);
  await insertRow(1, [startOf(id, NOW), endOf(id, NOW)]);
  await t.store
    .collection(runningRuns)
    .insert({ id: 'run_0000000009', emitter_id: SOURCE, trigger: 'timer', started_at_ms: NOW });
  expect((await get(id)).status).toBe(200);
  for (const known of [id, 'run_0000000009']) {
    expect((await get(known, BOB)).status).toBe(404);
    expect((await callApi(service, 'POST', `/runs/${known}/cancel`, { as: BOB })).status).toBe(404);
  }
  expect((await get('run_0000000001')).status).toBe(404);
  expect((await get('nothing')).status).toBe(404);
  expect((await list('', BOB)).code).toBe('not_found');
});

test('a run in progress is listed, found and cancelled by the runner that owns its source; an ended one is a 409', async () => {
  const id = 'run_0000000009';
  const row = { id, emitter_id: SOURCE, trigger: 'timer' as const, started_at_ms: NOW };
  await t.store.collection(runningRuns).insert(row);
  expect((await list()).data).toMatchObject([{ id, state: 'running', trigger: 'timer' }]);
  const stop = new AbortController();
  const asked: unknown[] = [];
  let found = true;
  t.call.serve(
    CALLS.cancel,
    async (message, key) => {
      asked.push([message, key]);
      return { found };
    },
    stop.signal,
  );
  expect((await callApi(service, 'POST', `/runs/${id}/cancel`)).status).toBe(200);
  expect(asked).toEqual([[{ source_id: SOURCE, run_id: id }, SOURCE]]);
  found = false;
  const answer = await callApi(service, 'POST', `/runs/${id}/cancel`);
  expect([answer.status, answer.json.code]).toEqual([409, 'run_ended']);
  stop.abort();
});
