import { expect, test } from '@jest/globals';
import { states } from '@wellspring/store/collections/states';
import { eventually } from '@wellspring/testing/eventually';
import { ECHO, usePlatform } from './platform.fixture.ts';

const t = usePlatform();

test('a runner whose partition has a later owner commits nothing and gives its jobs up', async () => {
  const id = await t.deploy(ECHO);
  t.epoch = 2;
  await t.runToEnd(id, ['own']);
  const rows = t.store.collection(states);
  const { row, version } = (await rows.getVersioned(id))!;
  expect(row.epoch).toBe(2);
  // As after a commit of the next owner.
  await rows.replace({ ...row, epoch: 3 }, version);

  await t.runAll(id, ['late']);
  await eventually(() => expect(t.failures.at(-1)).toMatchObject({ name: 'LeaseLost' }));
  expect(await t.events(id)).toEqual(['own']);
  expect((await rows.get(id))!.epoch).toBe(3);

  t.epoch = 4;
  await t.quiet();
  expect(await t.events(id)).toEqual(['own', 'late']);
  expect((await rows.get(id))!.epoch).toBe(4);
});
