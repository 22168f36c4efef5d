import { describe, expect, test } from '@jest/globals';
import { insertEvents, insertLogs, newEmitter, range, store, walk } from './channel.fixture.ts';
import { type Channel, channelOf } from './channel.ts';
import { findEvent, pageOf } from './list-events.ts';

const shown = async (channel: Channel, input: Parameters<typeof pageOf>[1] = {}) =>
  (await pageOf(channel, input)).data.map(({ event }) => event);

/** Uneven numbers of records per run, `count` in all. */
function lengthsOf(count: number): number[] {
  const lengths: number[] = [];
  for (let left = count; left > 0; left -= lengths.at(-1)!) {
    lengths.push(Math.min(left, [1, 5, 2, 30, 7][lengths.length % 5]!));
  }
  return lengths;
}

describe.each(['events', '$logs'])('a list of %s', (kind) => {
  const make = async (count: number) => {
    const id = newEmitter();
    if (kind === 'events') await insertEvents(id, range(0, count));
    else await insertLogs(id, lengthsOf(count));
    return channelOf(store, id, kind === 'events' ? undefined : '$logs');
  };

  test('shows the newest first, ten by default, and counts up to a hundred', async () => {
    const channel = await make(15);
    const { data, total_count } = await pageOf(channel, {});
    expect(data.map(({ event }) => event)).toEqual(range(5, 15).reverse());
    expect(total_count).toBe(15);
    const long = await make(130);
    expect((await pageOf(long, { limit: 1000 })).data.map(({ event }) => event)).toEqual(
      range(30, 130).reverse(),
    );
    expect((await pageOf(long, {})).total_count).toBe(100);
  });

  test('each event is found by its id, whole and beyond the newest hundred', async () => {
    const channel = await make(130);
    const keys = (await channel.newer('', 130)).map(({ id }) => id);
    expect(keys).toHaveLength(130);
    for (const [number, id] of keys.entries()) expect((await findEvent(channel, id)).event).toEqual(number);
    for (const id of [`${keys[0]}9`, '1-0', 'x', '', '999999999999999-0']) {
      await expect(findEvent(channel, id)).rejects.toMatchObject({ status: 404 });
    }
  });

  test('pages of any size cover exactly the newest hundred', async () => {
    const [short, long] = [await make(23), await make(130)];
    for (const limit of [1, 2, 7, 16, 17, 99, 100]) {
      expect(await walk(short, limit)).toEqual(range(0, 23).reverse());
      expect(await walk(long, limit)).toEqual(range(30, 130).reverse());
    }
  });

  test('`before` returns the next newer ones, nearest to the cursor', async () => {
    const channel = await make(40);
    const all = (await pageOf(channel, { limit: 100 })).data;
    expect(await shown(channel, { before: all[10]!.id, limit: 4 })).toEqual(
      all.slice(6, 10).map(({ event }) => event),
    );
    expect(await shown(channel, { before: all[2]!.id, limit: 4 })).toEqual([39, 38]);
    expect(await shown(channel, { before: all[0]!.id })).toEqual([]);
  });

  test('a cursor is a raw or encoded event id, even of a deleted event; anything else is a 400', async () => {
    const channel = await make(6);
    const { data } = await pageOf(channel, { limit: 3 });
    const id = data.at(-1)!.id;
    for (const after of [id, Buffer.from(id).toString('base64url'), Buffer.from(id).toString('base64')]) {
      expect(await shown(channel, { after })).toEqual([2, 1, 0]);
    }
    for (const after of ['', 'abc', '1-', Buffer.from('dc_0000000000').toString('base64url')]) {
      await expect(pageOf(channel, { after })).rejects.toMatchObject({ status: 400, param: 'after' });
    }
    await expect(pageOf(channel, { after: id, before: id })).rejects.toMatchObject({ status: 400 });
  });
});

describe('channels', () => {
  test('the default list contains default and named channels, a name one channel; $errors is separate', async () => {
    const id = newEmitter();
    await insertEvents(id, [0, 2]);
    await insertEvents(id, [1, 3], 'low');
    await insertEvents(id, [4], '$errors', '$errors');
    expect(await shown(channelOf(store, id, undefined))).toEqual([3, 2, 1, 0]);
    expect(await shown(channelOf(store, id, ''))).toEqual([2, 0]);
    expect(await shown(channelOf(store, id, 'low'))).toEqual([3, 1]);
    expect(await shown(channelOf(store, id, '$errors'))).toEqual([4]);
    expect(await shown(channelOf(store, id, 'none'))).toEqual([]);
    expect(await shown(channelOf(store, newEmitter(), undefined))).toEqual([]);
  });
});
