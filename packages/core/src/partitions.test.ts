import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { partitionOf, shareOf } from './partitions.ts';

const members = fc.uniqueArray(fc.uuid(), { minLength: 1, maxLength: 40 });
const groups = fc.record({
  group: fc.constantFrom('runs', 'emitted'),
  partitions: fc.integer({ min: 1, max: 64 }),
});

test('all shards of a key have the same partition; keys spread evenly', () => {
  const P = 32;
  expect(partitionOf('dc_1#7', P)).toBe(partitionOf('dc_1', P));
  const counts = new Array<number>(P).fill(0);
  for (let n = 0; n < 32_000; n++) counts[partitionOf(`dc_${n}`, P)]! += 1;
  for (const count of counts) expect(Math.abs(count - 1_000)).toBeLessThan(200);
});

describe('the shares of members', () => {
  test('sum up to all partitions and differ by at most one, for any order of the members', () => {
    fc.assert(
      fc.property(members, groups, (names, group) => {
        const shares = names.map((name) => shareOf(name, names, group));
        expect(shares.reduce((a, b) => a + b)).toBe(group.partitions);
        expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(1);
        const reversed = [...names].reverse();
        expect(names.map((name) => shareOf(name, reversed, group))).toEqual(shares);
      }),
    );
    expect(shareOf('a', ['b'], { group: 'runs', partitions: 32 })).toBe(0);
  });

  test('never rise when a member joins, nor fall when one leaves', () => {
    fc.assert(
      fc.property(members, fc.uuid(), groups, (names, other, group) => {
        fc.pre(!names.includes(other));
        for (const name of names) {
          expect(shareOf(name, [...names, other], group)).toBeLessThanOrEqual(shareOf(name, names, group));
        }
      }),
    );
  });

  test('favour different members in different groups', () => {
    const names = ['a', 'b', 'c', 'd', 'e'];
    const larger = (group: string) =>
      names.filter((name) => shareOf(name, names, { group, partitions: 31 }) === 7);
    expect(new Set(Array.from({ length: 20 }, (_, n) => larger(`group ${n}`).join())).size).toBeGreaterThan(
      1,
    );
  });
});
