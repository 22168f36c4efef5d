import { expect, test } from '@jest/globals';
import { createUserIds, mappedRange } from './user-ids.ts';

test('a user namespace that maps all ids gives the range that no system uses', () => {
  expect(mappedRange('         0          0 4294967295\n')).toEqual({
    first: 2_000_000_000,
    last: 2_147_483_646,
  });
});

test('a user namespace with 65,536 ids, as in a rootless container, gives a range of these', () => {
  const range = mappedRange('0 1000 1\n0 100000 65536\n');
  expect(range).toEqual({ first: 61_184, last: 65_519 });
});

test('a user namespace that maps too few ids gives no range', () => {
  expect(mappedRange('0 1000 1\n')).toBeUndefined();
  expect(mappedRange('')).toBeUndefined();
});

test('an id is not allocated again before it is released', () => {
  const ids = createUserIds()!;
  const given = Array.from({ length: 3000 }, () => ids.allocate());
  expect(new Set(given).size).toBe(3000);
  for (const id of given.slice(0, 2000)) ids.release(id);
  const later = Array.from({ length: 3000 }, () => ids.allocate());
  expect(later.filter((id) => given.slice(2000).includes(id))).toEqual([]);
  expect(() => Array.from({ length: 1000 }, () => ids.allocate())).toThrow('in use');
});
