import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import type { Config } from '@wellspring/runtime/config';
import type { Emitter } from '@wellspring/store/collections/emitters';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { numbers } from '@wellspring/testing/numbers';
import { subscriptionRow } from '@wellspring/testing/rows';
import { createCatalog } from './catalog.ts';
import { codeAllowNetworks, createGate, type Gate } from './gate.fixture.ts';
import { usePlatform } from './platform.fixture.ts';
import { subscribe } from './rows.fixture.ts';
import { createRunListeners } from './run-listeners.ts';

const t = usePlatform({ codeAllowNetworks });
const free = { charge() {} };

/** Emits its event on the channel that it names. */
const SAYING = `export default { name: 'Saying', run({ channel, value }) { this.$emit(value, { name: channel }); } };`;

const say = (value: string, channel = 'side') => ({ value, channel });

test('events on channels without listeners are stored, and not published', async () => {
  const id = await t.deploy(SAYING);
  await t.runToEnd(id, [say('unheard')]);
  await subscribe(t, id, 'side');
  await t.runToEnd(id, [say('heard')]);
  expect(await t.events(id)).toEqual(['unheard', 'heard']);
  expect(t.publishedPayloads('side')).toEqual(['heard']);
});

test('a run without listeners leaves no message', async () => {
  const id = await t.deploy(SAYING);
  await t.runToEnd(id, [say('unheard'), say('unheard')]);
  expect(await t.events(id)).toEqual(['unheard', 'unheard']);
  expect(t.published).toEqual([]);
});

/** Starts a run that emits when the gate is open, and creates a listener meanwhile. */
async function startAndSubscribe(gate: Gate): Promise<void> {
  const id = await t.deploy(`export default { name: 'Waiting', async run() {
    ${gate.wait}
    this.$emit('late', { name: 'side' });
  } };`);
  await t.runAll(id, ['go']);
  await gate.reached;
  await subscribe(t, id, 'side');
}

test('a listener that is created during a run gets what the run emits', async () => {
  await using gate = await createGate();
  await startAndSubscribe(gate);
  gate.open();
  await t.quiet();
  expect(t.publishedPayloads('side')).toEqual(['late']);
});

test('when listeners that a run may have created cannot be read, the message does not name those of its begin', async () => {
  await using gate = await createGate();
  await startAndSubscribe(gate);
  const rows = t.store.collection(subscriptions);
  const { count } = rows;
  rows.count = async () => {
    rows.count = count;
    throw new Unavailable('no answer');
  };
  gate.open();
  await t.quiet();
  expect(rows.count).toBe(count);
  expect(t.publishedPayloads('side')).toEqual(['late']);
  expect(t.published.map(({ revision }) => revision)).toEqual([undefined]);
});

test('a subscription to all sources of the owner is a listener, and one of another owner is not', async () => {
  const id = await t.deploy(SAYING);
  const catalog = createCatalog({ ...t, config: {} as Config }, free);
  const insert = (fields: object = {}) =>
    t.store.collection(subscriptions).insert(
      subscriptionRow({
        emitter_id: 'dc_*',
        listener_id: 'wh_0000000001',
        event_name: 'side',
        ...fields,
      }),
    );
  const unheard = async () =>
    (await catalog.listenersOfRun((await catalog.load(id))!, new Set(['', 'side']))).unheard;
  await insert({ owner_id: 'u_0000000009' });
  expect(await unheard()).toEqual(new Set(['side']));
  await insert();
  expect(await unheard()).toEqual(new Set());
});

test('events on very many channels are published without a look-up for each', async () => {
  const id = await t.deploy(`export default { name: 'Many', run() {
    for (let n = 0; n < 100; n += 1) this.$emit(n, { name: 'channel ' + n });
  } };`);
  await t.runToEnd(id, ['go']);
  expect(t.published.flatMap(({ events }) => events)).toHaveLength(100);
});

test('the usual channels of 10,000 sources stay known when code makes up many others', async () => {
  let queries = 0;
  const rows = { count: async () => ++queries - queries };
  const { isHeard } = createRunListeners({ ...t, store: { ...t.store, collection: () => rows as never } });
  const ask = async (sources: number, ...channels: string[]) => {
    queries = 0;
    for (let n = 0; n < sources; n += 1) {
      for (const channel of channels) await isHeard({ id: `dc_${n}`, owner_id: 'u' } as Emitter, channel, 1);
    }
    return queries;
  };
  expect(await ask(10_000, '', '$errors', '$logs')).toBe(60_000);
  await ask(1, ...numbers(20_000).map(String));
  expect(await ask(10_000, '', '$errors', '$logs')).toBe(0);
});

test('when the listeners cannot be read, everything is published', async () => {
  const id = await t.deploy(SAYING);
  const collection: typeof t.store.collection = (definition) => {
    const rows = t.store.collection(definition);
    const isBroken = (definition as unknown) === subscriptions;
    const count = async () => {
      throw new Error('no answer');
    };
    return isBroken ? { ...rows, count } : rows;
  };
  const broken = createCatalog({ ...t, store: { ...t.store, collection }, config: {} as Config }, free);
  const loaded = (await createCatalog({ ...t, config: {} as Config }, free).load(id))!;
  expect(await broken.listenersOfRun(loaded, new Set(['side']))).toEqual({ unheard: new Set() });
});
