import { beforeEach, describe, expect, test } from '@jest/globals';
import { forEachTest } from '@wellspring/testing/lifetimes';
import fc from 'fast-check';
import { currentRevision } from './collections/revisions.ts';
import { ids, type StoreSubject, type Thing, thing, things } from './conformance-subject.ts';
import type { Collection } from './port.ts';

/** By code points, as UTF-8 bytes compare. */
const byCodePoint = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Conformance suite of conditions, orders and pages. */
export function queryConformance(name: string, open: () => Promise<StoreSubject>): void {
  describe(`queries: ${name}`, () => {
    const subject = forEachTest(open);
    let rows: Collection<Thing>;

    beforeEach(() => {
      rows = subject.store.collection(things);
    });

    test('conditions: equality, null, booleans, membership, ranges, all of them together', async () => {
      await rows.insertMany([
        thing('a', { owner: 'x', rank: 1, done: true }),
        thing('b', { owner: 'x', rank: 2.5, done: false }),
        thing('c', { owner: 'y', rank: -3 }),
        thing('d', { owner: null, rank: null }),
      ]);
      const found = async (where: Parameters<typeof rows.find>[0]) =>
        ids(await rows.list({ where, order: 'asc' }));
      expect(await found({})).toEqual(['a', 'b', 'c', 'd']);
      expect(await found({ owner: 'x' })).toEqual(['a', 'b']);
      expect(await found({ owner: null })).toEqual(['d']);
      expect(await found({ rank: null })).toEqual(['d']);
      expect(await found({ done: true })).toEqual(['a']);
      expect(await found({ done: false })).toEqual(['b']);
      expect(await found({ done: null })).toEqual(['c', 'd']);
      expect(await found({ rank: { gt: -3, lte: 2.5 } })).toEqual(['a', 'b']);
      expect(await found({ rank: { lt: 1 } })).toEqual(['c']);
      expect(await found({ owner: { in: ['y', 'x'] }, rank: { gte: 1 } })).toEqual(['a', 'b']);
      expect(await found({ owner: { in: [] } })).toEqual([]);
      expect(await found({ id: { in: ['d', 'a', 'zz'] } })).toEqual(['a', 'd']);
      expect(await found({ id: { gt: 'b' } })).toEqual(['c', 'd']);
      // A number does not match a text.
      expect(await found({ owner: 1 as never })).toEqual([]);
    });

    test('every write to a collection with a revision raises it, except patches of excepted fields only', async () => {
      const revision = { of: 'things', except: ['rank'] } as const;
      const counted = subject.store.collection({ ...things, name: 'counted_things', revision });
      const current = () => currentRevision(subject.store, 'things');
      const raises = async (write: () => Promise<unknown>) => {
        const before = await current();
        await write();
        return (await current()) > before;
      };
      expect(await current()).toBe(0);
      expect(await raises(() => counted.insert(thing('a')))).toBe(true);
      expect(await raises(() => counted.insertMany([thing('b')]))).toBe(true);
      expect(await raises(() => counted.patch('a', { rank: 1 }))).toBe(false);
      expect(await raises(() => counted.patch('a', { rank: 1, name: 'x' }))).toBe(true);
      expect(await raises(() => counted.replace(thing('b', { rank: 2 }), 1))).toBe(true);
      expect(await raises(() => counted.get('a'))).toBe(false);
      expect(await raises(() => counted.remove('a'))).toBe(true);
      expect(await raises(() => counted.removeWhere({ rank: 2 }))).toBe(true);
      expect(await counted.count()).toBe(0);
    });

    test('a list and a claim may leave out the texts', async () => {
      await rows.insertMany([thing('a', { body: 'text', loose: 1 }), thing('b', { body: 'text' })]);
      const found = await rows.list({ texts: false, order: 'asc', limit: 1 });
      expect(found).toEqual([thing('a', { body: '', loose: 1 })]);
      expect((await rows.list({ texts: false })).map(({ body }) => body)).toEqual(['', '']);
      // One that changes the field of a unique index too.
      for (const fields of [{ rank: 7 }, { rank: 8, name: 'x' }]) {
        const claimed = await rows.claim({ where: { id: 'a' }, texts: false }, fields);
        expect(claimed).toEqual([thing('a', { body: '', loose: 1, ...fields })]);
      }
      expect(await rows.get('a')).toEqual(thing('a', { body: 'text', loose: 1, rank: 8, name: 'x' }));
    });

    test('a condition on a field without index, or with undefined, throws', async () => {
      await rows.insert(thing('1'));
      const bad = [
        { loose: 1 },
        { body: '' },
        { other: 1 },
        { owner: undefined },
        { rank: {} },
        { rank: { not: 1 } },
      ];
      for (const where of bad as never[]) {
        await expect(rows.list({ where })).rejects.toThrow();
        await expect(rows.find(where)).rejects.toThrow();
        await expect(rows.count(where)).rejects.toThrow();
        await expect(rows.removeWhere(where)).rejects.toThrow();
        await expect(rows.patch('1', { rank: 1 }, where)).rejects.toThrow();
        await expect(rows.claim({ where }, { rank: 1 })).rejects.toThrow();
      }
      await expect(rows.list({ orderBy: 'loose' })).rejects.toThrow();
      expect(await rows.list()).toEqual([thing('1')]);
    });

    test('lists order by a field and then by id, as code points and numbers compare', async () => {
      const texts = ['a', 'B', 'Z', 'é', 'z', '😀', '\uffee', '10', '9', '_', '-'];
      await rows.insertMany(texts.map((id, i) => thing(id, { owner: 'o', rank: i % 3 })));
      const sorted = texts.toSorted(byCodePoint);
      expect(ids(await rows.list({ order: 'asc' }))).toEqual(sorted);
      expect(ids(await rows.list())).toEqual(sorted.toReversed());
      const rankOf = (id: string) => texts.indexOf(id) % 3;
      const byRank = sorted.toSorted((a, b) => rankOf(a) - rankOf(b));
      expect(ids(await rows.list({ orderBy: 'rank', order: 'asc' }))).toEqual(byRank);
      expect(ids(await rows.list({ where: { owner: 'o' }, orderBy: 'rank' }))).toEqual(byRank.toReversed());
      expect(ids(await rows.list({ orderBy: 'rank', order: 'asc', limit: 2 }))).toEqual(byRank.slice(0, 2));
      expect((await rows.find({ owner: 'o' }))?.id).toBe(sorted[0]);
    });

    test('conditions and orders agree with a plain filter for any rows', async () => {
      const value = fc.option(fc.integer({ min: -3, max: 3 }));
      const bound = fc.integer({ min: -4, max: 4 });
      let round = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(value, { maxLength: 20 }), bound, bound, async (ranks, low, high) => {
          round += 1;
          const all = ranks.map((rank, i) => thing(`${round}-${i}`, { owner: `o${round}`, rank }));
          await rows.insertMany(all);
          const where = { owner: `o${round}`, rank: { gte: low, lt: high } };
          const wanted = all
            .filter(({ rank }) => typeof rank === 'number' && rank >= low && rank < high)
            .toSorted((a, b) => a.rank! - b.rank! || byCodePoint(a.id, b.id));
          expect(ids(await rows.list({ where, orderBy: 'rank', order: 'asc' }))).toEqual(ids(wanted));
          expect(await rows.count(where)).toBe(wanted.length);
          expect(await rows.count(where, 2)).toBe(Math.min(2, wanted.length));
        }),
        { numRuns: 40 },
      );
    });

    test('pages by id neither miss nor repeat a row when rows come and go between them', async () => {
      const pad = (n: number) => String(n).padStart(4, '0');
      await rows.insertMany(Array.from({ length: 50 }, (_, i) => thing(pad(i * 2), { owner: 'o' })));
      const seen: string[] = [];
      let before = '~';
      for (;;) {
        const page = await rows.list({ where: { owner: 'o', id: { lt: before } }, limit: 7 });
        if (page.length === 0) break;
        seen.push(...ids(page));
        before = page.at(-1)!.id;
        await rows.insert(thing(pad(1001 + seen.length), { owner: 'o' }));
        await rows.remove(before);
      }
      expect(seen).toEqual(Array.from({ length: 50 }, (_, i) => pad((49 - i) * 2)));
    });
  });
}
