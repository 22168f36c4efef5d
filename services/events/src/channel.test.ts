import { afterAll, describe, expect, test } from '@jest/globals';
import { systemClock } from '@wellspring/core/clock';
import { eventIdOfSortKey, eventSortKey } from '@wellspring/core/event-id';
import { type EventRow, type EventStream, events, logs } from '@wellspring/store/collections/events';
import { states } from '@wellspring/store/collections/states';
import { openPorts } from '@wellspring/testing/service-harness';
import fc from 'fast-check';
import { type Channel, channelOf } from './channel.ts';
import { deleteRange } from './delete-range.ts';
import { follow, HANDSHAKE, type Wake } from './follow.ts';
import { createSharedReads } from './frames.ts';
import { pageOf } from './list-events.ts';
import { resumeAfter } from './resume.ts';

const ports = openPorts();
const { store } = ports;
afterAll(() => ports.close());

const BASE = 1_700_000_000_000;
let emitters = 0;
const newEmitter = () => `dc_${String(++emitters).padStart(10, '0')}`;

function eventRow(emitterId: string, n: number, name = '', stream: EventStream = 'events'): EventRow {
  // Two events share a millisecond.
  const sort_key = eventSortKey({ ms: BASE + Math.floor(n / 2), n: n % 2 });
  return {
    id: `${emitterId}/${stream}/${sort_key}`,
    emitter_id: emitterId,
    stream,
    partition: `${emitterId}/${stream}`,
    channel: `${emitterId}/${stream}/${name}`,
    sort_key,
    run_id: `run_${n}`,
    indexed_at_ms: BASE + n,
    name,
    emit_id: `emit_${n}`,
    meta_id: null,
    summary: null,
    ts: null,
    payload: String(n),
  };
}

const range = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => from + i);
const insertEvents = (emitterId: string, numbers: readonly number[], name?: string, stream?: EventStream) =>
  store.collection(events).insertMany(numbers.map((n) => eventRow(emitterId, n, name, stream)));

/** Logs of a run: one row per length, with consecutive records. */
async function insertLogs(emitterId: string, lengths: readonly number[]): Promise<void> {
  let n = 0;
  for (const [run, count] of lengths.entries()) {
    const sort_key = eventSortKey({ ms: BASE + run, n: 0 });
    await store.collection(logs).insert({
      id: `${emitterId}/${sort_key}`,
      emitter_id: emitterId,
      sort_key,
      run_id: `run_${run}`,
      indexed_at_ms: BASE + run,
      count,
      records: JSON.stringify(Array.from({ length: count }, () => n++)),
    });
  }
}

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

/** Reads all pages from the newest on. */
async function walk(channel: Channel, limit: number): Promise<unknown[]> {
  const seen: unknown[] = [];
  for (let after: string | undefined; ; ) {
    const { data } = await pageOf(channel, { limit, after });
    if (data.length === 0) return seen;
    seen.push(...data.map(({ event }) => event));
    after = data.at(-1)!.id;
  }
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

describe('deletion', () => {
  const left = (id: string, name?: string) => walk(channelOf(store, id, name), 100);
  const keyOf = (n: number) => eventRow('', n).sort_key;

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

  test('of more events than one batch deletes them all', async () => {
    const id = newEmitter();
    await insertEvents(id, range(0, 1203));
    await deleteRange(store, id, undefined, undefined, keyOf(1201));
    expect(await left(id)).toEqual([1202]);
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

describe('a stream', () => {
  /** Follows a channel; `stop` returns the ids of all frames. */
  function start(
    channel: Channel,
    after: string,
    { mayContinue = true, takes = Number.POSITIVE_INFINITY } = {},
  ) {
    const text: string[] = [];
    const stopped = new AbortController();
    let wake: Wake = () => {};
    let waiting: (() => void)[] = [];
    const over = follow({
      channel,
      after,
      reads: createSharedReads(),
      clock: systemClock,
      signal: stopped.signal,
      sink: {
        async send(piece) {
          text.push(piece);
          for (const one of waiting) one();
          waiting = [];
          return text.length < takes;
        },
      },
      onWake(given) {
        wake = given;
        return () => {
          wake = () => {};
        };
      },
      mayContinue: async () => mayContinue,
    });
    const ids = () => [...text.join('').matchAll(/^id: (.*)$/gm)].map(([, id]) => id!);
    return {
      over,
      ids,
      text,
      wake: (why: 'events' | 'changed' = 'events') => wake(why),
      async until(count: number) {
        while (ids().length < count) await new Promise<void>((resolve) => waiting.push(resolve));
      },
      async stop() {
        stopped.abort();
        await over;
        return ids();
      },
    };
  }
  const idOf = (n: number) => eventIdOfSortKey(eventRow('', n).sort_key);

  test('sends retained events after the cursor, then new ones, each once and in order', async () => {
    const id = newEmitter();
    await insertEvents(id, range(0, 100));
    const stream = start(channelOf(store, id, undefined), eventRow('', 9).sort_key);
    await stream.until(90);
    for (const from of [100, 103, 110]) {
      await insertEvents(id, range(from, from + 3));
      stream.wake();
      stream.wake();
      await stream.until(from === 110 ? 99 : from === 103 ? 96 : 93);
    }
    const expected = [...range(10, 106), ...range(110, 113)].map(idOf);
    expect(await stream.stop()).toEqual(expected);
  });

  test('of logs resumes within the records of a run', async () => {
    const id = newEmitter();
    await insertLogs(id, [3, 4]);
    const channel = channelOf(store, id, '$logs');
    const all = await channel.newer('', 10);
    const stream = start(channel, all[1]!.sortKey);
    await stream.until(5);
    expect(await stream.stop()).toEqual(all.slice(2).map((one) => one.id));
  });

  test('a wake-up during a shared read is not lost', async () => {
    const id = newEmitter();
    const channel = channelOf(store, id, undefined);
    const reads = createSharedReads();
    // The first read finds nothing; the second stream starts after the event, during that read.
    const early = reads.read(channel, '');
    await insertEvents(id, [0]);
    reads.outdated(channel);
    const late = reads.read(channel, '');
    expect(await early).toBeUndefined();
    expect((await late)?.text).toContain(`id: ${idOf(0)}\n`);
  });

  test('readers with the same cursor share one read', async () => {
    const id = newEmitter();
    await insertEvents(id, [0, 1]);
    const channel = channelOf(store, id, undefined);
    let asked = 0;
    const counting = {
      ...channel,
      newer(...given: Parameters<Channel['newer']>) {
        asked++;
        return channel.newer(...given);
      },
    };
    const reads = createSharedReads();
    const texts = await Promise.all(range(0, 50).map(() => reads.read(counting, '')));
    expect(asked).toBe(1);
    expect(new Set(texts.map((one) => one!.text)).size).toBe(1);
  });

  test('ends without access, and when the reader takes no more', async () => {
    const id = newEmitter();
    await insertEvents(id, [0]);
    const channel = channelOf(store, id, undefined);
    await start(channel, '', { mayContinue: false }).over;
    const slow = start(channel, '', { takes: 1 });
    await slow.over;
    expect(slow.ids()).toEqual([idOf(0)]);
    expect(slow.text.join('')).not.toContain(HANDSHAKE);
  });

  test('resumes after the given id; an unknown id means all retained events', async () => {
    const id = newEmitter();
    await insertEvents(id, range(0, 5));
    const channel = channelOf(store, id, undefined);
    const after = (lastId?: string) => resumeAfter(store, id, channel, undefined, lastId);
    expect(await after()).toBe(eventRow('', 4).sort_key);
    expect(await after('')).toBe(eventRow('', 4).sort_key);
    expect(await after(idOf(2))).toBe(eventRow('', 2).sort_key);
    expect(await after('1000000000000-0')).toBe(eventSortKey({ ms: 1_000_000_000_000, n: 0 }));
    expect(await after('nonsense')).toBe('');
    expect(await after('9999999999999-0')).toBe('');
    // The newest event was deleted; its id is still known.
    const newest = eventRow('', 9).sort_key;
    await store.collection(states).insert({
      id,
      db: {},
      dedupe: {},
      last_ids: { events: newest },
      committed: [],
    });
    expect(await after(idOf(9))).toBe(newest);
    expect(await after('9999999999999-0')).toBe('');
  });
});
