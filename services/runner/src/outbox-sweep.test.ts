import { expect, test } from '@jest/globals';
import type { EmittedMessage } from '@wellspring/contract/messages';
import { systemClock } from '@wellspring/core/clock';
import { createMemory, type Memory } from '@wellspring/core/memory';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Queue } from '@wellspring/queue/port';
import { type OutboxRow, outbox } from '@wellspring/store/collections/outbox';
import { eventually } from '@wellspring/testing/eventually';
import { numbers } from '@wellspring/testing/numbers';
import { OWNER } from '@wellspring/testing/rows';
import { useHarness } from '@wellspring/testing/service-harness';
import { createOutboxRelay } from './outbox-relay.ts';
import { outboxSweep } from './outbox-sweep.ts';

const t = useHarness();

const rowOf = (emitter_id: string, n: number, created_at_ms = n): OutboxRow => {
  const run_id = `run_${emitter_id}-${n}`;
  const message: EmittedMessage = {
    ...{ v: 1, type: 'emitted', run_id, emitter_id },
    ...{ owner_id: OWNER, hop: 0, events: [] },
  };
  return { id: run_id, emitter_id, created_at_ms, message: JSON.stringify(message) };
};

/** Sweeps these rows again and again. @returns the ids of the published ones, in order */
async function sweep(
  rows: readonly OutboxRow[],
  before: (key: string) => Promise<void>,
  memory: Memory = t.memory,
): Promise<string[]> {
  await t.store.collection(outbox).insertMany(rows);
  const published: string[] = [];
  const publish: Queue['publish'] = async (_name, { key, payload }) => {
    await before(key);
    published.push((JSON.parse(payload) as EmittedMessage).run_id);
  };
  const clock = {
    ...systemClock,
    sleep: (_ms: number, signal?: AbortSignal) => systemClock.sleep(1, signal),
  };
  const relay = createOutboxRelay({ ...t, memory, queue: { ...t.queue, publish } });
  t.run({ name: 'runner', workers: [outboxSweep({ ...t, clock }, relay)] });
  return published;
}
const idsOf = (rows: readonly OutboxRow[]) => rows.map(({ id }) => id);
const isEmpty = async () => (await t.store.collection(outbox).count()) === 0;

test.each(['refuses', 'does not answer'])(
  'a part of the queue that %s holds up no emitter of others, and its rows follow in order',
  async (how) => {
    const stuck = numbers(250).map((n) => rowOf('dc_stuck', n));
    const others = numbers(3).map((n) => rowOf('dc_other', 1_000 + n));
    const isBack = Promise.withResolvers<void>();
    let isAvailable = false;
    const published = await sweep([...stuck, ...others], async (key) => {
      if (isAvailable || key !== 'dc_stuck') return;
      if (how === 'refuses') throw new Unavailable('no leader');
      await isBack.promise;
    });
    await eventually(() => published.length === others.length);
    expect(published).toEqual(idsOf(others));
    isAvailable = true;
    isBack.resolve();
    await eventually(isEmpty);
    expect(published).toEqual(idsOf([...others, ...stuck]));
  },
);

test('a row that cannot be published hides none of the many of the same time', async () => {
  const rows = numbers(250).map((n) => rowOf(`dc_${1_000 + n}`, n, 5));
  const published = await sweep(rows, async (key) => {
    if (key < 'dc_1200') throw new Unavailable('no leader');
  });
  await eventually(() => published.length === 50);
  expect(new Set(published)).toEqual(new Set(idsOf(rows.slice(200))));
});

test('rows of an emitter follow in the order of their commits, also after the clock was set back', async () => {
  const now = systemClock.now();
  // The clock was set back after two commits; the last one is young.
  const rows = [120_000, 60_000, -40_000, -50_000, -3_000].map((ahead, n) => ({
    ...rowOf('dc_one', n, now + ahead),
    commit: n + 1,
  }));
  const published = await sweep(rows, async () => {});
  await eventually(() => published.length === 4);
  expect(published).toEqual(idsOf(rows.slice(0, 4)));
});

test('messages that the queue does not take are held only as far as there is memory for them', async () => {
  const text = 'x'.repeat(1024 ** 2);
  const rows = t.store.collection(outbox);
  const { get } = rows;
  let read = 0;
  Object.assign(rows, { get: (id: string) => get(id).finally(() => read++) });
  const isBack = Promise.withResolvers<void>();
  const large = numbers(30).map((n) => {
    const row = rowOf(`dc_${n}`, n);
    return { ...row, message: JSON.stringify({ ...JSON.parse(row.message), text }) };
  });
  // 8 MB for output of runs, of which the sweep gets half.
  const memory = createMemory(1);
  let begun = 0;
  const published = await sweep(
    large,
    () => {
      begun += 1;
      return isBack.promise;
    },
    memory,
  );
  await eventually(() => read === large.length);
  expect(begun).toBeLessThanOrEqual(4);
  expect(memory.effects.used).toBeLessThan(5 * text.length);
  isBack.resolve();
  await eventually(isEmpty);
  expect(new Set(published)).toEqual(new Set(idsOf(large)));
  expect(memory.effects.used).toBe(0);
}, 20_000);

test('messages of an emitter stay in order when a redelivered run publishes them during the sweep', async () => {
  const rows = t.store.collection(outbox);
  await rows.insertMany([rowOf('dc_one', 1), rowOf('dc_one', 2)]);
  const { get } = rows;
  const isRead = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  Object.assign(rows, {
    async get(id: string) {
      asked.resolve();
      if (id.endsWith('-1')) await isRead.promise;
      return get(id);
    },
  });
  const published: string[] = [];
  const publish: Queue['publish'] = async (_name, { payload }) => {
    published.push((JSON.parse(payload) as EmittedMessage).run_id);
  };
  const relay = createOutboxRelay({
    ...t,
    store: { ...t.store, publishesCommits: false },
    queue: { ...t.queue, publish },
  });
  const swept = relay.publishStored({ id: 'run_dc_one-1' });
  await asked.promise;
  const republished = relay.republish('dc_one');
  isRead.resolve();
  await Promise.all([swept, republished]);
  expect(published).toEqual(['run_dc_one-1', 'run_dc_one-2']);
  await relay.close();
});
