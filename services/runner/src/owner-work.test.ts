import { beforeEach, expect, test } from '@jest/globals';
import { createOwnerWork, type OwnerWork } from './owner-work.ts';

let time: number;
let work: OwnerWork;
beforeEach(() => {
  time = 1000;
  work = createOwnerWork(() => time);
});

const heavy = (...ownerIds: string[]) => ownerIds.filter((ownerId) => work.isHeavy(ownerId));

test('the only owner is not heavy', () => {
  for (let n = 0; n < 100; n += 1) work.add('u_only', 0.3);
  time += 15_000;
  for (let n = 0; n < 100; n += 1) work.add('u_only', 0.3);
  expect(heavy('u_only', 'u_unknown')).toEqual([]);
});

test('owners that cause most of the work are heavy, others are not, however many of them cause less', () => {
  for (const ownerId of ['u_1', 'u_2']) work.add(ownerId, 500);
  work.add('u_3', 60);
  work.add('u_4', 40);
  for (let n = 0; n < 200; n += 1) work.add(`u_idle${n}`, 0.3);
  expect(heavy('u_1', 'u_2', 'u_3', 'u_4', 'u_idle1', 'u_unknown')).toEqual(['u_1', 'u_2', 'u_3']);
});

test('work that was estimated too high does not count', () => {
  work.add('u_1', 500);
  work.add('u_2', 20);
  work.add('u_1', -490);
  expect(heavy('u_1', 'u_2')).toEqual(['u_1', 'u_2']);
  work.add('u_1', -10);
  expect(heavy('u_1', 'u_2')).toEqual(['u_2']);
});

test('work counts for fifteen to thirty seconds', () => {
  work.add('u_former', 500);
  work.add('u_other', 1);
  time += 29_000;
  expect(heavy('u_former', 'u_other')).toEqual(['u_former']);
  work.add('u_other', 2);
  expect(heavy('u_former', 'u_other')).toEqual(['u_former']);
  time += 15_000;
  work.add('u_former', 0.1);
  expect(heavy('u_former', 'u_other')).toEqual(['u_other']);
  time += 30_000;
  work.add('u_former', 0.1);
  expect(heavy('u_former', 'u_other')).toEqual([]);
});
