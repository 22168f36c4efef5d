import { expect, test } from '@jest/globals';
import { eventSortKey } from '@wellspring/core/event-id';
import { logs } from '@wellspring/store/collections/events';
import { measureReads } from '@wellspring/testing/measure-reads';
import { logRow } from '@wellspring/testing/rows';
import { newEmitter, pageOf, range, store } from './channel.fixture.ts';
import { channelOf } from './channel.ts';

const ROW_BYTES = 100_000;

/** Rows of 20 records, two of which share each millisecond. */
async function insertLargeLogs(rows: number): Promise<string> {
  const id = newEmitter();
  const records = JSON.stringify(range(0, 20).map(() => 'x'.repeat(ROW_BYTES / 20)));
  await store
    .collection(logs)
    .insertMany(
      range(0, rows).map((n) =>
        logRow(id, eventSortKey({ ms: Math.floor(n / 2), n: 20 * (n % 2) }), { count: 20, records }),
      ),
    );
  return id;
}

test('a page and a read of large logs take the rows that they show, and no others', async () => {
  const id = await insertLargeLogs(50);
  const all = await channelOf(store, id, '$logs').newer('', 1000);
  const read = async (limit: number, after: number) => {
    const reads = measureReads(store);
    const records = await channelOf(reads.store, id, '$logs').newer(all[after]!.sortKey, limit);
    return { ids: records.map(({ id }) => id), rows: Math.floor(reads.bytes() / ROW_BYTES) };
  };
  const ids = (from: number, to: number) => all.slice(from, to).map(({ id }) => id);
  expect(await read(4, 3)).toEqual({ ids: ids(4, 8), rows: 1 });
  expect(await read(4, 17)).toEqual({ ids: ids(18, 22), rows: 2 });
  expect(await read(4, 19)).toEqual({ ids: ids(20, 24), rows: 1 });
  expect(await read(4, 999)).toEqual({ ids: [], rows: 0 });
  for (const input of [{ limit: 1 }, { limit: 1, after: all[990]!.id }]) {
    const reads = measureReads(store);
    expect((await pageOf(channelOf(reads.store, id, '$logs'), input)).data).toHaveLength(1);
    expect(reads.bytes()).toBeLessThan(2.5 * ROW_BYTES);
  }
});

test('counts the records after any record of a row, without their texts', async () => {
  const id = await insertLargeLogs(5);
  const all = await channelOf(store, id, '$logs').newer('', 1000);
  const reads = measureReads(store);
  const channel = channelOf(reads.store, id, '$logs');
  expect(await channel.countNewer('', 1000)).toBe(100);
  for (const [n, { sortKey }] of all.entries()) {
    expect(await channel.countNewer(sortKey, 1000)).toBe(99 - n);
    expect(await channel.countNewer(sortKey, 30)).toBe(Math.min(30, 99 - n));
  }
  expect(await channel.newestKey()).toBe(all.at(-1)!.sortKey);
  expect(reads.bytes()).toBeLessThan(5 * ROW_BYTES);
});
