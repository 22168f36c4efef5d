import { describe, expect, test } from '@jest/globals';
import { createByteBudget, createHold, UNLIMITED } from '@wellspring/core/byte-budget';
import { JsonText, stringify } from '@wellspring/core/json-text';
import { events } from '@wellspring/store/collections/events';
import {
  eventOf,
  insertEvents,
  insertLogs,
  newEmitter,
  pageOf,
  parsed,
  range,
  store,
  walk,
} from './channel.fixture.ts';
import { type Channel, channelOf } from './channel.ts';
import { findEvent, pageOf as pageWithin } from './list-events.ts';

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
    for (const [number, id] of keys.entries())
      expect(parsed(await findEvent(channel, id, UNLIMITED)).event).toEqual(number);
    for (const id of [`${keys[0]}9`, '1-0', 'x', '', '999999999999999-0']) {
      await expect(findEvent(channel, id, UNLIMITED)).rejects.toMatchObject({ status: 404 });
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

describe('a list of large events', () => {
  const BYTES = 100_000;
  const make = async (count: number) => {
    const id = newEmitter();
    const payload = JSON.stringify('x'.repeat(BYTES - 2));
    await store.collection(events).insertMany(range(0, count).map((n) => ({ ...eventOf(id, n), payload })));
    return channelOf(store, id, undefined);
  };
  const within = { hold: UNLIMITED, maxBytes: 7 * BYTES };

  test('has pages that end at their size, forth and back, and together show all', async () => {
    const channel = await make(130);
    const all = (await pageOf(channel, { limit: 100 })).data.map(({ id }) => id);
    const next = async (input: Parameters<typeof pageOf>[1]) =>
      (await pageWithin(channel, { limit: 100, expand: 'event', ...input }, within)).data.map(({ id }) => id);
    const forth = [await next({})];
    while (forth.at(-1)!.length > 0) forth.push(await next({ after: forth.at(-1)!.at(-1) }));
    expect(forth.flat()).toEqual(all);
    expect(Math.max(...forth.map((page) => page.length))).toBe(7);
    const oldest = (await channel.newer('', 1))[0]!.id;
    const back = [await next({ before: oldest })];
    while (back[0]!.length > 0) back.unshift(await next({ before: back[0]![0] }));
    expect(back.flat()).toEqual(all);
    expect(Math.max(...back.map((page) => page.length))).toBe(7);
  });

  test('takes memory for what it shows: cut events take little', async () => {
    const channel = await make(30);
    const takenBy = async (input: object) => {
      const hold = createHold(createByteBudget(100 * BYTES), 'reader');
      await pageWithin(channel, { limit: 20, ...input }, { hold, maxBytes: 50 * BYTES });
      return hold.bytes;
    };
    expect(Math.round((await takenBy({ expand: 'event' })) / BYTES)).toBe(20);
    expect(await takenBy({})).toBeLessThan(BYTES);
  });

  test.each([
    ['expanded', 'ж'.repeat(BYTES)],
    ['cut', '"\\'.repeat(BYTES)],
  ])('takes memory for the bytes of its answer, not for its characters: %s', async (kind, text) => {
    const id = newEmitter();
    const payload = JSON.stringify(text);
    await store.collection(events).insertMany(range(0, 10).map((n) => ({ ...eventOf(id, n), payload })));
    const hold = createHold(createByteBudget(100 * BYTES), 'reader');
    const page = await pageWithin(
      channelOf(store, id, undefined),
      kind === 'expanded' ? { expand: 'event' } : {},
      { hold, maxBytes: 7 * BYTES },
    );
    expect(page.data).toHaveLength(kind === 'expanded' ? 4 : 10);
    const answer = Buffer.byteLength(stringify(page));
    expect(hold.bytes).toBeGreaterThan(answer);
    expect(hold.bytes).toBeLessThan(1.2 * answer);
  });

  test('expanded events, and a single one, are not parsed and take memory for their text only', async () => {
    const id = newEmitter();
    // Its value takes 20 times as much.
    const payload = `[${'[],'.repeat(BYTES / 3)}0]`;
    await store.collection(events).insertMany(range(0, 10).map((n) => ({ ...eventOf(id, n), payload })));
    const channel = channelOf(store, id, undefined);
    const hold = createHold(createByteBudget(100 * BYTES), 'reader');
    const { data } = await pageWithin(channel, { expand: 'event' }, { hold, maxBytes: 100 * BYTES });
    expect(data.map(({ event }) => event)).toEqual(range(0, 10).map(() => new JsonText(payload)));
    expect(hold.bytes).toBeLessThan(11 * BYTES);
    const budget = createByteBudget(5 * BYTES);
    const held = createHold(budget, 'reader');
    expect((await findEvent(channel, data[0]!.id, held)).event).toEqual(new JsonText(payload));
    expect(held.bytes).toBeGreaterThan(BYTES);
    budget.tryTake(4 * BYTES);
    await expect(findEvent(channel, data[0]!.id, createHold(budget))).rejects.toMatchObject({ status: 503 });
  });

  test('ends early when memory runs out, and is a 503 without memory for one event', async () => {
    const channel = await make(30);
    const pageOf = (budget: number) => {
      const hold = createHold(createByteBudget(budget * BYTES), 'reader');
      return pageWithin(channel, { limit: 20, expand: 'event' }, { hold, maxBytes: 50 * BYTES });
    };
    expect((await pageOf(10)).data.map(({ id }) => id)).toEqual(
      (await channel.older(undefined, 4)).map(({ id }) => id),
    );
    const budget = createByteBudget(10 * BYTES);
    budget.tryTake(10 * BYTES);
    const none = pageWithin(
      channel,
      { expand: 'event' },
      { hold: createHold(budget, 'reader'), maxBytes: 50 * BYTES },
    );
    await expect(none).rejects.toMatchObject({ status: 503 });
  });
});
