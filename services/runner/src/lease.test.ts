import { expect, test } from '@jest/globals';
import { Unavailable } from '@wellspring/core/unavailable';
import { states } from '@wellspring/store/collections/states';
import { eventually } from '@wellspring/testing/eventually';
import { numbers } from '@wellspring/testing/numbers';
import { COUNTING, ECHO, usePlatform } from './platform.fixture.ts';

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

test('a runner that gets a partition back executes runs once, on the state that another owner has left', async () => {
  const id = await t.deploy(COUNTING);
  t.epoch = 1;
  await t.runToEnd(id, ['own']);
  const rows = t.store.collection(states);
  const { row, version } = (await rows.getVersioned(id))!;
  await rows.replace({ ...row, epoch: 2, db: { n: '41' } }, version);

  let runs = 0;
  t.faults.execute = () => {
    runs += 1;
  };
  t.epoch = 3;
  await t.runToEnd(id, ['back', 'later']);
  expect(runs).toBe(2);
  expect(await t.events(id)).toEqual([
    ['own', 1],
    ['back', 42],
    ['later', 43],
  ]);
});

test('a runner whose lease is not certain starts no further run of a batch, and each run is executed once', async () => {
  const id = await t.deploy(COUNTING);
  let runs = 0;
  t.faults.execute = () => {
    runs += 1;
    if (runs === 3) t.isHeld = false;
  };
  const list = numbers(40);
  await t.runAll(id, list);
  await eventually(() => expect(t.failures.length).toBeGreaterThan(0));
  expect(t.failures[0]).toBeInstanceOf(Unavailable);
  expect(runs).toBe(3);
  expect(await t.events(id)).toEqual(list.slice(0, 3).map((n) => [n, n + 1]));

  t.isHeld = true;
  await t.quiet();
  expect(runs).toBe(list.length);
  expect(await t.events(id)).toEqual(list.map((n) => [n, n + 1]));
});
