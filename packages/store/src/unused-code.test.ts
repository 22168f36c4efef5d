import { expect, test } from '@jest/globals';
import type { Definition } from '@wellspring/contract/definition';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { bundles, type ComponentRow, components, REGISTRY, registry } from './collections/components.ts';
import { deployments } from './collections/sources.ts';
import { openEmbedded } from './embedded/store.fixture.ts';
import type { CollectionDefinition, Row } from './port.ts';
import { pruneBundles, pruneUnpublished } from './unused-code.ts';

const HOUR = 3_600_000;
const NOW = 1_700_000_000_000;
const DEFINITION: Definition = {
  ...{ name: 'C', key: 'c', version: '1.0.0', type: 'source', description: null, props: [] },
  ...{ hooks: [], dedupe: null, has_run: true, additional_props: false },
};

const subject = forEachTest(openEmbedded);

const of = <T extends Row>(definition: CollectionDefinition<T>) => subject.store.collection(definition);

async function bundle(id: string) {
  await of(bundles).insert({ id, content: '{}', unused_since: null });
}
async function component(id: string, bundle_id: string, owner_id = 'u_1'): Promise<ComponentRow> {
  const row: ComponentRow = {
    ...{ id, owner_id, code: id, modules: '', code_hash: id, content_hash: id, bundle_id },
    ...{ definition: DEFINITION, source_url: null, created_at: 0, updated_at: 0 },
  };
  await of(components).insert(row);
  return row;
}
async function deployment(component_id: string, bundle_id: string) {
  const id = `d_${component_id}`;
  await of(deployments).insert({
    ...{ id, source_id: 'dc_1', component_id, bundle_id, definition: DEFINITION },
    ...{ configured_props: {}, created_at: 0 },
  });
  return id;
}
const left = async () => (await of(bundles).list({ order: 'asc' })).map(({ id }) => id);

test('a bundle is removed a day after its last component and deployment', async () => {
  for (const id of ['deployed', 'saved', 'stale', 'unused']) await bundle(id);
  await component('sc_saved', 'saved');
  const deployed = await deployment('sc_gone', 'deployed');
  await component('sc_stale', 'stale');
  expect(await pruneBundles(subject.store, NOW)).toBe(0);
  await of(components).remove('sc_stale');
  expect(await pruneBundles(subject.store, NOW + HOUR)).toBe(0);
  expect(await pruneBundles(subject.store, NOW + 24 * HOUR)).toBe(1);
  expect(await left()).toEqual(['deployed', 'saved', 'stale']);
  await of(deployments).remove(deployed);
  expect(await pruneBundles(subject.store, NOW + 25 * HOUR)).toBe(1);
  expect(await left()).toEqual(['deployed', 'saved']);
  expect(await pruneBundles(subject.store, NOW + 49 * HOUR)).toBe(1);
  expect(await left()).toEqual(['saved']);
});

test('a bundle that is used again within the day starts anew', async () => {
  await bundle('b');
  await pruneBundles(subject.store, NOW);
  await component('sc_1', 'b');
  await pruneBundles(subject.store, NOW + 24 * HOUR);
  await of(components).remove('sc_1');
  expect(await pruneBundles(subject.store, NOW + 25 * HOUR)).toBe(0);
  expect(await pruneBundles(subject.store, NOW + 48 * HOUR)).toBe(0);
  expect(await pruneBundles(subject.store, NOW + 49 * HOUR)).toBe(1);
});

test('a component of the registry goes when it is neither published nor deployed', async () => {
  await component('sc_published', 'b', REGISTRY);
  await component('sc_deployed', 'b', REGISTRY);
  await component('sc_unpublished', 'b', REGISTRY);
  await component('sc_own', 'b');
  const version = { key: 'c', version: '1.0.0', content_hash: 'sc_published', created_at: 0 };
  await of(registry).insert({ id: 'c@1.0.0', component_id: 'sc_published', ...version });
  const deployed = await deployment('sc_deployed', 'b');
  expect(await pruneUnpublished(subject.store)).toBe(1);
  await of(deployments).remove(deployed);
  expect(await pruneUnpublished(subject.store)).toBe(1);
  const ids = (await of(components).list({ order: 'asc' })).map(({ id }) => id);
  expect(ids).toEqual(['sc_own', 'sc_published']);
});
