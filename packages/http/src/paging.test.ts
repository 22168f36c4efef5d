import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { createByteBudget, createHold, UNLIMITED } from '@wellspring/core/byte-budget';
import { encodeCursor } from '@wellspring/core/cursor';
import { listLarge, listPage } from './paging.ts';

test('a page has at most as many rows as there are in all, also when some are deleted between its two reads', async () => {
  const rows = [{ id: 'wh_2' }, { id: 'wh_1' }];
  const collection = { list: async () => [...rows], count: async () => 1 };
  expect(await listPage(collection, {}, {})).toEqual({ data: rows, total_count: 2 });
});

describe('a list of large items', () => {
  const MB = 1024 * 1024;
  const rows = Array.from({ length: 20 }, (_, n) => ({ id: `wh_${n}`, owner_id: `u_${n % 10}` }));
  const collection = { list: async () => [...rows], count: async () => rows.length };
  const { signal } = new AbortController();
  const ids = (...numbers: number[]) => numbers.map((n) => `wh_${n}`);

  test('reads only a few at a time, for all requests together', async () => {
    let [reading, most] = [0, 0];
    const read = async (row: { id: string }) => {
      most = Math.max(most, ++reading);
      await nextTurn();
      reading -= 1;
      return row;
    };
    const list = () => listLarge(collection, {}, {}, { hold: UNLIMITED, signal, read, bytesOf: () => 1 });
    const pages = await Promise.all(Array.from({ length: 10 }, list));
    expect(pages.map(({ data }) => data.length)).toEqual(Array(10).fill(20));
    expect(most).toBeLessThanOrEqual(4);
  });

  test('ends where there is no memory for more; without memory for one item it is refused', async () => {
    const hold = createHold(createByteBudget(25));
    const items = {
      ...{ hold, signal },
      read: async ({ id }: { id: string }) => (id === 'wh_1' ? undefined : { id }),
      bytesOf: () => 10,
    };
    expect((await listLarge(collection, {}, {}, items)).data).toEqual(ids(0, 2).map((id) => ({ id })));
    expect(hold.bytes).toBe(20);
    await expect(listLarge(collection, {}, {}, items)).rejects.toMatchObject({ status: 503 });
  });

  test('reads nothing more for a request that has ended', async () => {
    const request = new AbortController();
    const begun: string[] = [];
    const read = async ({ id }: { id: string }) => {
      begun.push(id);
      if (begun.length === 3) request.abort(new Error('gone'));
      return id;
    };
    const items = { hold: UNLIMITED, signal: request.signal, read, bytesOf: () => 1 };
    await expect(listLarge(collection, {}, {}, items)).rejects.toThrow('gone');
    expect(begun).toEqual(ids(0, 1, 2));
  });

  test('ends at 32 MB, also of a request that is not limited; the nearest items stay', async () => {
    const items = {
      ...{ hold: UNLIMITED, signal },
      read: async ({ id }: { id: string }) => id,
      bytesOf: () => 15 * MB,
    };
    expect((await listLarge(collection, {}, {}, items)).data).toEqual(ids(0, 1, 2));
    const before = encodeCursor('wh_9');
    expect((await listLarge(collection, {}, { before }, items)).data).toEqual(ids(2, 1, 0));
  });
});
