import { beforeEach, describe, expect, test } from '@jest/globals';
import { forEachTest } from '@wellspring/testing/lifetimes';
import fc from 'fast-check';
import { ids, type StoreSubject, type Thing, thing, things } from './conformance-subject.ts';
import { type Collection, ConflictError, modify } from './port.ts';

/** Conformance suite of collections. */
export function collectionConformance(name: string, open: () => Promise<StoreSubject>): void {
  describe(`collections: ${name}`, () => {
    const subject = forEachTest(open);
    let rows: Collection<Thing>;

    beforeEach(() => {
      rows = subject.store.collection(things);
    });

    test('a row is read as it was written', async () => {
      const row = thing('1', { loose: { deep: [1, null, { a: 'ü' }], none: null }, body: '{"a" : 1}' });
      await rows.insert(row);
      expect(await rows.get('1')).toEqual(row);
      expect(await rows.getVersioned('1')).toEqual({ row, version: 1 });
      expect(await rows.get('2')).toBeUndefined();
      expect(await rows.getVersioned('2')).toBeUndefined();
      expect(await rows.find({ id: '2' })).toBeUndefined();
    });

    test('any text is stored and found: NUL, lone surrogates, quotes, empty', async () => {
      const unit = fc.oneof(
        fc.string({ unit: 'binary' }),
        fc.constantFrom('\0', 'a\0b', '\ud800', 'x\udfff', '\u2028', `'"\\`, '%_', '', '\ufeff', '1', 'null'),
        fc
          .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 6 })
          .map((units) => String.fromCharCode(...units)),
      );
      let n = 0;
      await fc.assert(
        fc.asyncProperty(unit, unit, async (text, body) => {
          n += 1;
          const row = thing(`t${n}`, { owner: `o${n}`, name: text, loose: { [body]: text }, body });
          await rows.insert(row);
          expect(await rows.get(row.id)).toEqual(row);
          expect(await rows.find({ owner: `o${n}`, name: text })).toEqual(row);
          expect(await rows.find({ owner: `o${n}`, name: { in: ['other', text] } })).toEqual(row);
          expect(await rows.count({ owner: `o${n}`, name: { gte: text, lte: text } })).toBe(1);
          expect(await rows.patch(row.id, { body: text, loose: body })).toBe(true);
          expect(await rows.get(row.id)).toEqual({ ...row, body: text, loose: body });
        }),
        { numRuns: 60 },
      );
    });

    test('large texts and documents are stored', async () => {
      const row = thing('big', {
        body: 'é'.repeat(6_000_000),
        loose: Array.from({ length: 50_000 }, (_, i) => i),
      });
      await rows.insert(row);
      const found = await rows.get('big');
      expect(found?.body === row.body).toBe(true);
      expect(found?.loose).toEqual(row.loose);
    });

    test('a taken id or unique value throws a ConflictError that names the fields, and changes nothing', async () => {
      await rows.insert(thing('1', { owner: 'o', name: 'n' }));
      await rows.insert(thing('2', { owner: 'o', name: 'other' }));
      const conflict = async (work: Promise<unknown>) => {
        const error = (await work.catch((thrown: unknown) => thrown)) as ConflictError;
        expect(error).toBeInstanceOf(ConflictError);
        expect(error.collection).toBe('things');
        return error.fields;
      };
      expect(await conflict(rows.insert(thing('1')))).toEqual(['id']);
      expect(await conflict(rows.insert(thing('3', { owner: 'o', name: 'n' })))).toEqual(['owner', 'name']);
      expect(await conflict(rows.patch('2', { name: 'n' }))).toEqual(['owner', 'name']);
      expect(await conflict(rows.replace(thing('2', { owner: 'o', name: 'n' }), 1))).toEqual([
        'owner',
        'name',
      ]);
      expect(await rows.get('2')).toEqual(thing('2', { owner: 'o', name: 'other' }));
      expect(await rows.count()).toBe(2);
      await rows.remove('1');
      await rows.insert(thing('3', { owner: 'o', name: 'n' }));
    });

    test('null and absent never conflict', async () => {
      await rows.insert(thing('1', { owner: 'o', name: null }));
      await rows.insert(thing('2', { owner: 'o', name: null }));
      await rows.insert(thing('3', { owner: 'o' }));
      expect(await rows.count({ owner: 'o', name: null })).toBe(3);
    });

    test('a failing write does not affect concurrent ones', async () => {
      const results = await Promise.allSettled([
        rows.insert(thing('1')),
        rows.insert(thing('1', { name: 'second' })),
        rows.insertMany([thing('2'), thing('3')]),
        rows.patch('1', { name: 'patched' }),
      ]);
      expect(results.map(({ status }) => status)).toEqual([
        'fulfilled',
        'rejected',
        'fulfilled',
        'fulfilled',
      ]);
      expect(ids(await rows.list({ order: 'asc' }))).toEqual(['1', '2', '3']);
      expect((await rows.get('1'))?.name).toBe('patched');
    });

    test('insertMany returns the new ids and is idempotent', async () => {
      await rows.insert(thing('2', { owner: 'mine' }));
      const many = [
        thing('1', { owner: 'o', name: 'n' }),
        thing('2'),
        thing('3', { owner: 'o', name: 'n' }),
        thing('4'),
      ];
      expect(await rows.insertMany(many)).toEqual(['1', '4']);
      expect(await rows.insertMany(many)).toEqual([]);
      expect(await rows.insertMany([])).toEqual([]);
      expect((await rows.get('2'))?.owner).toBe('mine');
    });

    test('replace overwrites only the given version', async () => {
      await rows.insert(thing('1', { name: 'a', loose: 1 }));
      expect(await rows.replace(thing('1', { name: 'b' }), 1)).toBe(true);
      expect(await rows.replace(thing('1', { name: 'c' }), 1)).toBe(false);
      expect(await rows.replace(thing('9'), 1)).toBe(false);
      expect(await rows.replace(thing('9'), 0)).toBe(false);
      expect(await rows.getVersioned('1')).toEqual({ row: thing('1', { name: 'b' }), version: 2 });
    });

    test('every write increments the version', async () => {
      await rows.insert(thing('1', { rank: 1 }));
      await rows.patch('1', { name: 'a' });
      await rows.patch('1', { body: 'text' });
      await rows.increment('1', { rank: 1 }, thing('1'));
      await rows.claim({ where: { rank: 2 } }, { rank: 0 });
      expect((await rows.getVersioned('1'))?.version).toBe(5);
    });

    test('concurrent modify loses no change', async () => {
      await rows.insert(thing('1', { rank: 0 }));
      const add = () => modify(rows, '1', (row) => ({ ...row, rank: (row.rank ?? 0) + 1 }));
      await Promise.all(Array.from({ length: 20 }, add));
      expect((await rows.get('1'))?.rank).toBe(20);
      expect(await modify(rows, '2', (row) => row)).toBeUndefined();
    });

    test('patch sets fields, removes undefined ones, and keeps the rest', async () => {
      await rows.insert(thing('1', { name: 'n', rank: 1, loose: { a: 1 }, body: 'text' }));
      expect(await rows.patch('1', { rank: 2, name: undefined as never })).toBe(true);
      expect(await rows.get('1')).toEqual(thing('1', { rank: 2, loose: { a: 1 }, body: 'text' }));
      expect(await rows.patch('2', { rank: 2 })).toBe(false);
      expect(await rows.count()).toBe(1);
    });

    test('patch with a condition writes only if it holds', async () => {
      await rows.insert(thing('1', { rank: 1, owner: 'a' }));
      expect(await rows.patch('1', { rank: 2 }, { rank: 7 })).toBe(false);
      expect(await rows.patch('1', { rank: 2 }, { rank: { lt: 7 }, owner: 'b' })).toBe(false);
      expect(await rows.patch('1', { rank: 2 }, { rank: { lt: 7 }, owner: 'a' })).toBe(true);
      const raced = await Promise.all([3, 4, 5].map((rank) => rows.patch('1', { rank }, { rank: 2 })));
      expect(raced.filter(Boolean)).toHaveLength(1);
    });

    test('increment creates the row, then adds, also concurrently', async () => {
      await Promise.all(
        Array.from({ length: 10 }, () =>
          rows.increment('1', { rank: 3 }, thing('1', { rank: 0, owner: 'first' })),
        ),
      );
      await rows.increment('1', { rank: -5 }, thing('1', { owner: 'ignored' }));
      expect(await rows.get('1')).toEqual(thing('1', { rank: 25, owner: 'first' }));
    });

    test('remove and removeWhere return what they removed', async () => {
      await rows.insertMany(
        [1, 2, 3, 4, 5].map((n) => thing(`${n}`, { owner: n < 5 ? 'o' : 'p', rank: 9 - n })),
      );
      expect(await rows.remove('1')).toBe(true);
      expect(await rows.remove('1')).toBe(false);
      expect(await rows.removeWhere({ owner: 'o' }, 1)).toBe(1);
      expect(await rows.count({ owner: 'o' })).toBe(2);
      expect(await rows.removeWhere({ owner: 'o' }, 1)).toBe(1);
      expect(await rows.removeWhere({ owner: 'o' })).toBe(1);
      expect(await rows.removeWhere({ owner: 'o' })).toBe(0);
      expect(ids(await rows.list())).toEqual(['5']);
    });

    test('concurrent claimers get every row exactly once, in order, as patched', async () => {
      await rows.insertMany(
        Array.from({ length: 60 }, (_, i) => thing(`${i}`, { rank: 60 - i, done: false, body: `text ${i}` })),
      );
      const claim = () =>
        rows.claim(
          { where: { done: false }, orderBy: 'rank', order: 'asc', limit: 7 },
          { done: true, name: 'taken' },
        );
      const claims = await Promise.all(Array.from({ length: 12 }, claim));
      expect(claims.flat()).toHaveLength(60);
      expect(new Set(ids(claims.flat())).size).toBe(60);
      expect(claims[0]!.map(({ rank }) => rank)).toEqual([1, 2, 3, 4, 5, 6, 7]);
      for (const row of claims.flat()) {
        expect(row).toMatchObject({ done: true, name: 'taken', body: `text ${row.id}` });
        expect(await rows.get(row.id)).toEqual(row);
      }
      expect(await claim()).toEqual([]);
    });

    test('an acknowledged write survives a kill', async () => {
      await rows.insert(thing('1', { body: 'text' }));
      await rows.patch('1', { rank: 4 });
      const found = (await subject.afterCrash()).collection(things);
      expect(await found.getVersioned('1')).toEqual({
        row: thing('1', { body: 'text', rank: 4 }),
        version: 2,
      });
    });
  });
}
