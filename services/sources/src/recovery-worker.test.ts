import { expect, test } from '@jest/globals';
import type { HookName } from '@wellspring/contract/definition';
import { sources } from '@wellspring/store/collections/sources';
import { eventually } from '@wellspring/testing/eventually';
import { forEachTest } from '@wellspring/testing/lifetimes';
import { ALICE, BOB } from '@wellspring/testing/service-harness';
import { code, createTestbed, HTTP } from './platform.fixture.ts';

const t = forEachTest(() => createTestbed('distributed'));

const CODE = code({ props: [HTTP] });
const create = async (principal = ALICE) =>
  (await t.invoke<{ id: string }>('createSource', {}, { component_code: CODE }, principal)).id;
const sourceOf = async (id: string) => (await t.rowsOf(id)).source!;

/** As a crash leaves a source in the middle of an update. */
async function interrupt(id: string, until = 0): Promise<void> {
  const { status: _status, transition: _transition, ...revert } = await sourceOf(id);
  const transition = { id: 'left', until, revert, next: revert.deployment_id };
  await t.store.collection(sources).patch(id, { status: 'updating', transition });
}

test('a hook that hangs does not hold up the recovery of another owner', async () => {
  const ids = [await create(ALICE), await create(BOB)];
  for (const id of ids) await interrupt(id);
  const held = Promise.withResolvers<string>();
  const end = Promise.withResolvers<void>();
  t.onHook((_hook, _deployment, sourceId) => {
    t.onHook(() => {});
    held.resolve(sourceId);
    return end.promise;
  });
  const recovering = t.recover();
  const hanging = await held.promise;
  const [other] = ids.filter((id) => id !== hanging);
  await eventually(async () => (await sourceOf(other!)).status === 'live');
  expect((await sourceOf(hanging)).status).toBe('updating');
  end.resolve();
  await recovering;
  expect((await sourceOf(hanging)).status).toBe('live');
});

test('many hooks of an owner that hang leave recoveries to other owners', async () => {
  const many = [];
  for (let n = 0; n < 6; n++) many.push(await create(ALICE));
  const other = await create(BOB);
  for (const id of [...many, other]) await interrupt(id);
  const end = Promise.withResolvers<void>();
  const hanging = new Set<string>();
  t.onHook((_hook, _deployment, sourceId) => {
    if (sourceId === other) return;
    hanging.add(sourceId);
    return end.promise;
  });
  const recovering = t.recover();
  await eventually(async () => (await sourceOf(other)).status === 'live');
  await eventually(() => hanging.size >= 4);
  expect(hanging.size).toBe(4);
  end.resolve();
  await recovering;
});

/** The store is unavailable from the next hook of this name on, until the operation has failed. */
async function failDuring(hook: HookName, operation: () => Promise<unknown>): Promise<void> {
  const held = t.holdHook(hook);
  const failing = operation();
  await held.begun;
  t.dieAfter(0);
  held.end();
  await expect(failing).rejects.toThrow();
  t.dieAfter(Number.POSITIVE_INFINITY);
}

test('an update whose undoing fails, too, in an outage of the store is undone by the same process soon', async () => {
  const id = await create();
  const update = (version: string) =>
    t.invoke('updateSource', { id }, { component_code: code({ props: [HTTP], version }) });
  await failDuring('activate', () => update('two'));
  expect((await sourceOf(id)).status).toBe('updating');
  await t.recoverElsewhere();
  expect((await sourceOf(id)).status).toBe('updating');
  await t.recover();
  expect(await sourceOf(id)).toMatchObject({ status: 'live', transition: null });
  await update('three');
});

test('a creation whose undoing fails, too, in an outage of the store is undone by the same process soon', async () => {
  await failDuring('deploy', create);
  const rows = t.store.collection(sources);
  expect(await rows.list()).toMatchObject([{ status: 'deploying' }]);
  await t.recover();
  expect(await rows.list()).toEqual([]);
});

test('an update of a process whose clock was far ahead is undone', async () => {
  const id = await create();
  await interrupt(id, Date.UTC(2200, 0));
  await t.recover();
  expect((await sourceOf(id)).status).toBe('live');
});
