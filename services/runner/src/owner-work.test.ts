import { beforeEach, expect, test } from '@jest/globals';
import { createOwnerWork, type OwnerWork } from './owner-work.ts';

let time: number;
let work: OwnerWork;
beforeEach(() => {
  time = 1000;
  work = createOwnerWork(() => time);
});

const heavy = (...ownerIds: string[]) => ownerIds.filter((ownerId) => work.isAboveAverage(ownerId));

test('the only owner is not above the average', () => {
  for (let n = 0; n < 100; n += 1) work.add('u_only', 0.1);
  time += 5_000;
  for (let n = 0; n < 100; n += 1) work.add('u_only', 0.1);
  expect(heavy('u_only', 'u_unknown')).toEqual([]);
});

test('owners that cause most of the work are above the average, others are not', () => {
  for (const ownerId of ['u_1', 'u_2']) work.add(ownerId, 500);
  for (const ownerId of ['u_3', 'u_4', 'u_5']) work.add(ownerId, 2);
  expect(heavy('u_1', 'u_2', 'u_3', 'u_4', 'u_5', 'u_unknown')).toEqual(['u_1', 'u_2']);
});

test('work counts for five to ten seconds', () => {
  work.add('u_former', 500);
  work.add('u_other', 1);
  time += 9_000;
  expect(heavy('u_former', 'u_other')).toEqual(['u_former']);
  work.add('u_other', 2);
  expect(heavy('u_former', 'u_other')).toEqual(['u_former']);
  time += 5_000;
  expect(heavy('u_former', 'u_other')).toEqual([]);
  work.add('u_former', 1);
  expect(heavy('u_former', 'u_other')).toEqual(['u_other']);
  time += 10_000;
  work.add('u_former', 0.1);
  expect(heavy('u_former', 'u_other')).toEqual([]);
});
