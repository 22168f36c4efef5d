import { describe, expect, test } from '@jest/globals';
import { type Clock, systemClock } from '@wellspring/core/clock';
import { eventIdOfSortKey, eventSortKey } from '@wellspring/core/event-id';
import { states } from '@wellspring/store/collections/states';
import { createFakeClock } from '@wellspring/testing/fake-clock';
import { eventOf, insertEvents, insertLogs, newEmitter, range, store } from './channel.fixture.ts';
import { type Channel, channelOf, workflowStreamOf } from './channel.ts';
import { follow, KEEP_ALIVE_INTERVAL_MS, type Wake } from './follow.ts';
import { createSharedReads } from './frames.ts';
import { resumeAfter } from './resume.ts';

const KEEP_ALIVE = ':keepalive\n\n';

describe('a stream', () => {
  /** Follows a channel; `stop` returns the ids of all frames. */
  function start(
    channel: Channel,
    after: string,
    { mayContinue = true, takes = Number.POSITIVE_INFINITY, clock = systemClock as Clock } = {},
  ) {
    const text: string[] = [];
    const stopped = new AbortController();
    let wake: Wake = () => {};
    let waiting: (() => void)[] = [];
    const over = follow({
      channel,
      after,
      reads: createSharedReads(),
      keepAlive: KEEP_ALIVE,
      clock,
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
  const idOf = (n: number) => eventIdOfSortKey(eventOf('', n).sort_key);

  test('sends retained events after the cursor, then new ones, each once and in order', async () => {
    const id = newEmitter();
    await insertEvents(id, range(0, 100));
    const stream = start(channelOf(store, id, undefined), eventOf('', 9).sort_key);
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

  test('sends its comment every 15 seconds', async () => {
    const clock = createFakeClock();
    const stream = start(channelOf(store, newEmitter(), undefined), '', { clock });
    for (let sent = 0; sent < 3; sent += 1) {
      await clock.asleep();
      expect(stream.text).toEqual(Array.from({ length: sent }, () => KEEP_ALIVE));
      await clock.advance(KEEP_ALIVE_INTERVAL_MS);
    }
    await stream.stop();
  });

  test('sends its comment every 15 seconds also after the clock was set back', async () => {
    const timer = createFakeClock();
    let isSetBack = false;
    const now = () => timer.now() - (isSetBack ? 3_600_000 : 0);
    const stream = start(channelOf(store, newEmitter(), undefined), '', { clock: { ...timer, now } });
    await timer.asleep();
    isSetBack = true;
    for (let sent = 1; sent < 4; sent += 1) {
      await timer.advance(KEEP_ALIVE_INTERVAL_MS);
      await timer.asleep();
      expect(stream.text).toEqual(Array.from({ length: sent }, () => KEEP_ALIVE));
    }
    await stream.stop();
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
    expect(slow.text.join('')).not.toContain(KEEP_ALIVE);
  });

  test('of a workflow starts with the newest 100 events, unless an id is given', async () => {
    const id = newEmitter('p');
    const after = (lastId?: string) =>
      resumeAfter(store, id, workflowStreamOf(store, id, undefined), undefined, lastId);
    expect(await after()).toBe('');
    await insertEvents(id, range(0, 60));
    expect(await after('')).toBe('');
    await insertEvents(id, range(60, 103), 'live', '$sse');
    expect(await after()).toBe(eventOf('', 2).sort_key);
    expect(await after(idOf(80))).toBe(eventOf('', 80).sort_key);
  });

  test('resumes after the given id; an unknown id means all retained events', async () => {
    const id = newEmitter();
    await insertEvents(id, range(0, 5));
    const channel = channelOf(store, id, undefined);
    const after = (lastId?: string) => resumeAfter(store, id, channel, undefined, lastId);
    expect(await after()).toBe(eventOf('', 4).sort_key);
    expect(await after('')).toBe(eventOf('', 4).sort_key);
    expect(await after(idOf(2))).toBe(eventOf('', 2).sort_key);
    expect(await after('1000000000000-0')).toBe(eventSortKey({ ms: 1_000_000_000_000, n: 0 }));
    expect(await after('nonsense')).toBe('');
    expect(await after('9999999999999-0')).toBe('');
    // The newest event was deleted; its id is still known.
    const newest = eventOf('', 9).sort_key;
    await store.collection(states).insert({
      id,
      db: {},
      epoch: 1,
      dedupe: {},
      last_ids: { events: newest },
    });
    expect(await after(idOf(9))).toBe(newest);
    expect(await after('9999999999999-0')).toBe('');
  });
});
