import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { memberFor, partitionOf, partitionsOf } from './rendezvous.ts';

const P = 32;
const all = Array.from({ length: P }, (_, partition) => partition);
const members = fc.uniqueArray(fc.uuid(), { minLength: 1, maxLength: 8 });

describe('partitions', () => {
  test('of a key and of its lanes are the same; keys spread evenly', () => {
    expect(partitionOf('dc_1#7', P)).toBe(partitionOf('dc_1', P));
    const counts = new Array<number>(P).fill(0);
    for (let n = 0; n < 32_000; n++) counts[partitionOf(`dc_${n}`, P)]! += 1;
    for (const count of counts) expect(Math.abs(count - 1_000)).toBeLessThan(200);
  });

  test('each belong to one member, whatever the order of the members', () => {
    fc.assert(
      fc.property(members, (names) => {
        const reversed = [...names].reverse();
        for (const partition of all) {
          expect(names).toContain(memberFor(partition, names));
          expect(memberFor(partition, reversed)).toBe(memberFor(partition, names));
        }
        expect(names.flatMap((name) => partitionsOf(name, names, P)).sort((a, b) => a - b)).toEqual(all);
      }),
    );
    expect(memberFor(0, [])).toBeUndefined();
  });

  test('move to or from the member that joins or leaves, and nowhere else', () => {
    fc.assert(
      fc.property(members, fc.uuid(), (names, other) => {
        fc.pre(!names.includes(other));
        const joined = [...names, other];
        for (const partition of all) {
          const [before, after] = [memberFor(partition, names), memberFor(partition, joined)];
          expect([before, other]).toContain(after);
        }
      }),
    );
  });

  test('spread over two and four members about evenly', () => {
    for (const count of [2, 4]) {
      const shares: number[] = [];
      for (let round = 0; round < 200; round++) {
        const names = Array.from({ length: count }, (_, n) => `member ${round}.${n}`);
        shares.push(...names.map((name) => partitionsOf(name, names, P).length));
      }
      const mean = shares.reduce((a, b) => a + b) / shares.length;
      expect(mean).toBe(P / count);
      // A binomial spread: three standard deviations hold nearly all.
      const deviation = Math.sqrt(P * (1 / count) * (1 - 1 / count));
      const far = shares.filter((share) => Math.abs(share - mean) > 3 * deviation).length;
      expect(far / shares.length).toBeLessThan(0.02);
    }
  });
});
