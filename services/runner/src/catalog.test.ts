import { expect, test } from '@jest/globals';
import type { Config } from '@wellspring/runtime/config';
import { deployments, sources } from '@wellspring/store/collections/sources';
import { subscriptions } from '@wellspring/store/collections/subscriptions';
import { OWNER, subscriptionRow } from '@wellspring/testing/rows';
import { createCatalog, type DeployedSource } from './catalog.ts';
import { type Cost, msOf } from './owner-costs.ts';
import { ECHO, usePlatform } from './platform.fixture.ts';

const t = usePlatform();
const free = { charge() {} };

test('a deployment is loaded for its own source only, also from the cache', async () => {
  const [own, other] = [await t.deploy(ECHO), await t.deploy(ECHO)];
  const { deployment_id } = (await t.store.collection(sources).get(own))!;
  const catalog = createCatalog({ ...t, config: {} as Config }, free);
  for (let attempt = 0; attempt < 2; attempt += 1) {
    expect(await catalog.load(other, deployment_id)).toBeUndefined();
    expect((await catalog.load(own))!.deployment.id).toBe(deployment_id);
  }
});

test('a loaded deployment holds no code', async () => {
  const id = await t.deploy(`${ECHO}\nexport const text = 'of the bundle';`);
  const { deployment } = (await createCatalog({ ...t, config: {} as Config }, free).load(
    id,
  )) as DeployedSource;
  expect((await deployment.readBundle()).code).toContain('of the bundle');
  expect(JSON.stringify(deployment)).not.toContain('of the bundle');
});

/** A catalog that notes which deployments it reads. */
function counting() {
  const reads: string[] = [];
  const collection: typeof t.store.collection = (definition) => {
    const rows = t.store.collection(definition);
    const get = (id: string) => {
      if ((definition as unknown) === deployments) reads.push(id);
      return rows.get(id);
    };
    return { ...rows, get };
  };
  const catalog = createCatalog({ ...t, store: { ...t.store, collection }, config: {} as Config }, free);
  return { reads, catalog };
}
const LARGE = { text: 'x'.repeat(6_000_000) };
/** They take as much once they are parsed. */
const LISTS = { lists: Array.from({ length: 300_000 }, () => []) };

test.each([
  ['a long text', LARGE],
  ['many values', LISTS],
])('loaded deployments take bounded memory: %s', async (_, props) => {
  const { reads, catalog } = counting();
  const ids = [];
  for (const one of [props, props, props]) ids.push(await t.deploy(ECHO, {}, one));
  for (const id of ids) await catalog.load(id);
  await catalog.load(ids.at(-1)!);
  expect(reads).toHaveLength(3);
  await catalog.load(ids[0]!);
  expect(reads).toHaveLength(4);
});

test('a deployment in use is not read again: a source is reloaded with it, as long as it has it', async () => {
  const { reads, catalog } = counting();
  const id = await t.deploy(ECHO, {}, LARGE);
  const loaded = (await catalog.load(id))!;
  for (const props of [LARGE, LARGE]) await catalog.load(await t.deploy(ECHO, {}, props));
  reads.length = 0;
  await t.store.collection(sources).patch(id, { active: false });
  const reloaded = (await catalog.reload(loaded))!;
  expect(reloaded.emitter.active).toBe(false);
  expect(reloaded.deployment).toEqual(loaded.deployment);
  await t.replaceCode(id, ECHO);
  expect(await catalog.reload(loaded)).toBeUndefined();
  expect(await catalog.exists(id)).toBe(true);
  await t.store.collection(sources).remove(id);
  expect(await catalog.exists(id)).toBe(false);
  expect(reads).toEqual([]);
});

test('reading a deployment is charged to its owner, by its size, and not while it is in memory', async () => {
  const charged: [owner: string, ms: number][] = [];
  const charge = (owner: string, cost: Cost) => void charged.push([owner, msOf(cost)]);
  const catalog = createCatalog({ ...t, config: {} as Config }, { charge });
  const props = `props: { keys: { type: 'string[]', secret: true } }`;
  const code = ECHO.replace('run(', `${props}, run(`);
  const keys = Array.from({ length: 1000 }, (_, n) => `key ${n} ${'x'.repeat(100)}`);
  const [small, large] = [await t.deploy(ECHO), await t.deploy(code, { owner_id: 'u_0000000009' }, { keys })];
  for (const id of [small, large, small, large]) await catalog.load(id);
  expect(charged).toEqual([
    [OWNER, expect.any(Number)],
    ['u_0000000009', expect.any(Number)],
  ]);
  const [[, smallMs], [, largeMs]] = charged as [[string, number], [string, number]];
  expect(smallMs).toBeLessThan(0.2);
  // A mask of a thousand secrets takes milliseconds.
  expect(largeMs).toBeGreaterThan(20);
});

test('$logs are wanted by globs of the owner of the source, not by those of others', async () => {
  const id = await t.deploy(ECHO);
  const ends = { emitter_id: 'dc_*', listener_id: 'wh_0000000001' };
  const subscribe = (fields: object = {}) =>
    t.store.collection(subscriptions).insert(subscriptionRow({ ...ends, event_name: '$logs', ...fields }));
  const logsWanted = async () =>
    (await createCatalog({ ...t, config: {} as Config }, free).load(id))!.logsWanted;
  await subscribe({ owner_id: 'u_0000000009' });
  expect(await logsWanted()).toBe(false);
  await subscribe();
  expect(await logsWanted()).toBe(true);
});
