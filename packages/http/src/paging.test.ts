import { expect, test } from '@jest/globals';
import { listPage } from './paging.ts';

test('a page has at most as many rows as there are in all, also when some are deleted between its two reads', async () => {
  const rows = [{ id: 'wh_2' }, { id: 'wh_1' }];
  const collection = { list: async () => [...rows], count: async () => 1 };
  expect(await listPage(collection, {}, {})).toEqual({ data: rows, total_count: 2 });
});
