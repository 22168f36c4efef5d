import { describe, expect, test } from '@jest/globals';
import { delayed } from '@wellspring/store/collections/delayed';
import { logs, marksOf } from '@wellspring/store/collections/events';
import { logRow } from '@wellspring/testing/rows';
import fc from 'fast-check';
import { eventOf, insertEvents, insertLogs, newEmitter, range, store, walk } from './channel.fixture.ts';
import { channelOf } from './channel.ts';
import { deleteRange } from './delete-range.ts';

describe('deletion', () => {
  const left = (id: string, name?: string) => walk(channelOf(store, id, name), 100);
  const keyOf = (n: number) => eventOf('', n).sort_key;

  test('removes exactly the range of one channel, both ends included', async () => {
    const id = newEmitter();
    await insertEvents(id, range(0, 8));
    await insertEvents(id, [9, 10], 'low');
    await insertEvents(id, [11], '$errors', '$errors');
    await deleteRange(store, id, undefined, keyOf(5), keyOf(3));
    expect((await left(id)).length).toBe(10);
    await deleteRange(store, id, undefined, keyOf(3), keyOf(3));
    expect(await left(id, '')).toEqual([7, 6, 5, 4, 2, 1, 0]);
    await deleteRange(store, id, '', keyOf(6), undefined);
    expect(await left(id)).toEqual([10, 9, 5, 4, 2, 1, 0]);
    await deleteRange(store, id, undefined, undefined, keyOf(1));
    expect(await left(id)).toEqual([10, 9, 5, 4, 2]);
    await deleteRange(store, id, 'low', undefined, undefined);
    expect(await left(id)).toEqual([5, 4, 2]);
    await deleteRange(store, id, undefined, undefined, undefined);
    expect(await left(id)).toEqual([]);
    expect(await left(id, '$errors')).toEqual([11]);
  });

  test('of delayed events removes their due times', async () => {
    const id = newEmitter();
    await insertEvents(id, [1, 2, 3], '', '$in');
    const dueTimes = store.collection(delayed);
    const dueTime = (sort_key: string) => ({
      ...{ id: `${id}/$in/${sort_key}`, emitter_id: id, owner_id: 'u_1', sort_key },
      ...{ due_at: 1, delivery_ts: 1, hop: 0, trace_id: '' },
    });
    await dueTimes.insertMany([1, 2, 3].map((n) => dueTime(keyOf(n))));
    await deleteRange(store, id, '$in', keyOf(2), keyOf(2));
    expect(await left(id, '$in')).toEqual([3, 1]);
    const kept = await dueTimes.list({ where: { emitter_id: id }, order: 'asc' });
    expect(kept.map(({ sort_key }) => sort_key)).toEqual([keyOf(1), keyOf(3)]);
  });

  test('of more events than one batch deletes them all', async () => {
    const id = newEmitter();
    await insertEvents(id, range(0, 1203));
    await deleteRange(store, id, undefined, undefined, keyOf(1201));
    expect(await left(id)).toEqual([1202]);
  });

  test('of logs keeps the marks of committed runs, which are not listed', async () => {
    const id = newEmitter();
    const rows = store.collection(logs);
    const committed = range(0, 600).map((n) =>
      logRow(id, keyOf(2 * n), {
        ...{ run_id: `run_${n}`, indexed_at_ms: n, count: 2, records: '[1,2]' },
        ...(n !== 300 && { ended: true as const }),
      }),
    );
    await rows.insertMany(committed);
    await deleteRange(store, id, '$logs', keyOf(3), undefined);
    await deleteRange(store, id, '$logs', undefined, undefined);
    expect(await left(id, '$logs')).toEqual([]);
    const kept = await rows.list({ where: { emitter_id: marksOf(id) }, order: 'asc' });
    expect(kept.map(({ run_id, ended }) => ended && run_id)).toEqual(
      range(0, 600)
        .filter((n) => n !== 300)
        .map((n) => `run_${n}`),
    );
  });

  test('of logs trims runs at either edge', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 6 }),
        fc.nat(29),
        fc.nat(29),
        async (lengths, a, b) => {
          const id = newEmitter();
          await insertLogs(id, lengths);
          const channel = channelOf(store, id, '$logs');
          const all = await channel.newer('', 100);
          const [start, end] = [all[a % all.length]!.sortKey, all[b % all.length]!.sortKey];
          await deleteRange(store, id, '$logs', start, end);
          const kept = all.filter(({ sortKey }) => sortKey < start || sortKey > end);
          expect((await channel.newer('', 100)).map((one) => [one.id, one.payload])).toEqual(
            kept.map((one) => [one.id, one.payload]),
          );
        },
      ),
      { numRuns: 60 },
    );
  });
});
