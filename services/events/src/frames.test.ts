import { expect, test } from '@jest/globals';
import { eventSortKey } from '@wellspring/core/event-id';
import type { Channel } from './channel.ts';
import { createSharedReads } from './frames.ts';
import type { EventRecord } from './record.ts';

/** A channel with events of these sizes that records the characters per read. */
function channelOf(sizes: readonly number[]) {
  const records = sizes.map((size, n): EventRecord => {
    const metadata = { emit_id: '', emitter_id: 'dc_1', name: '', id: null, summary: null, ts: null };
    const payload = JSON.stringify('x'.repeat(size));
    return { sortKey: eventSortKey({ ms: 1, n }), id: `1-${n}`, indexedAtMs: 1, metadata, payload };
  });
  const reads: number[] = [];
  const channel = {
    key: 'k',
    async newer(after: string, limit: number) {
      const found = records.filter(({ sortKey }) => sortKey > after).slice(0, limit);
      reads.push(found.reduce((sum, { payload }) => sum + payload.length, 0));
      return found;
    },
  } as Partial<Channel> as Channel;
  return { channel, reads };
}

async function readAll(channel: Channel) {
  const shared = createSharedReads();
  const texts: string[] = [];
  for (let after = ''; ; ) {
    const frames = await shared.read(channel, after);
    if (!frames) return texts;
    texts.push(frames.text);
    after = frames.last;
  }
}
const idsOf = (texts: string[]) => [...texts.join('').matchAll(/^id: (\S+)$/gm)].map(([, id]) => id);
const ids = (count: number) => Array.from({ length: count }, (_, n) => `1-${n}`);

test('large events are sent one by one', async () => {
  const { channel, reads } = channelOf(Array(40).fill(3_000_000));
  const texts = await readAll(channel);
  expect(idsOf(texts)).toEqual(ids(40));
  expect(Math.max(...texts.map((text) => text.length))).toBeLessThan(3_001_000);
  expect(Math.max(...reads)).toBeLessThan(5 * 3_000_000);
});

test('small events are sent together, few events with a single read', async () => {
  const many = channelOf(Array(70).fill(10));
  const texts = await readAll(many.channel);
  expect(idsOf(texts)).toEqual(ids(70));
  expect(texts).toHaveLength(3);
  // The first events of a page predict the size of the others.
  expect(many.reads.length).toBeLessThanOrEqual(2 * 3 + 1);
  const few = channelOf([10, 10]);
  await createSharedReads().read(few.channel, '');
  expect(few.reads).toHaveLength(1);
});

test('streams of many channels read a bounded number of events at a time', async () => {
  const shared = createSharedReads();
  let [now, most] = [0, 0];
  const streams = Array.from({ length: 60 }, async (_, n) => {
    const { channel } = channelOf(Array(40).fill(10));
    const newer: Channel['newer'] = async (after, limit) => {
      now += limit;
      most = Math.max(most, now);
      await new Promise((resolve) => setImmediate(resolve));
      now -= limit;
      return channel.newer(after, limit);
    };
    return idsOf([(await shared.read({ ...channel, key: `k${n}`, newer }, ''))!.text]);
  });
  expect(await Promise.all(streams)).toEqual(Array(60).fill(ids(32)));
  expect(most).toBeLessThanOrEqual(64);
});

test('events of any sizes are sent once and in order', async () => {
  const sizes = Array.from({ length: 100 }, (_, n) => (n % 7 === 0 ? 200_000 : n % 3 === 0 ? 30_000 : 5));
  const { channel } = channelOf(sizes);
  expect(idsOf(await readAll(channel))).toEqual(ids(100));
});
