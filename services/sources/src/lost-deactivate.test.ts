import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { bed, create, leftovers, names, update } from './sources.fixture.ts';

/** The runner dies during the first calls of `deactivate`. */
function loseCalls(times: number): void {
  bed.hooks.length = 0;
  bed.onHook((hook) => {
    if (hook === 'deactivate' && times-- > 0) throw new Unavailable('The runner died.');
  });
}

test.each([
  ['a deletion', (id: string) => bed.invoke('deleteSource', { id }, {})],
  ['an update', (id: string) => update(id, { active: false })],
])('a deactivate hook during which the runner died is repeated by %s', async (_what, change) => {
  const { id } = await create();
  loseCalls(2);
  await change(id);
  expect(names()).toEqual(['deactivate', 'deactivate', 'deactivate']);
});

test('a source whose deactivate hook always ends with its runner can be deleted', async () => {
  const { id } = await create();
  loseCalls(Number.POSITIVE_INFINITY);
  await bed.invoke('deleteSource', { id }, {});
  expect(names()).toEqual(Array(5).fill('deactivate'));
  expect(await leftovers()).toBe(0);
});

test('with ignore_hook_errors: false, the change is refused at once, and the source is active again', async () => {
  const { id } = await create();
  loseCalls(1);
  const strict = { active: false, ignore_hook_errors: false };
  await expect(update(id, strict)).rejects.toMatchObject({ name: 'CallFailed' });
  expect(names()).toEqual(['deactivate', 'activate']);
});
